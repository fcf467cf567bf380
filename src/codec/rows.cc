#include "codec/rows.h"

#include <algorithm>

#include "codec/layout.h"
#include "codec/loops.h"

namespace cortiq::codec {

std::optional<std::string> refuse_unless_matrix(const Shape& shape, bool grouped) {
  if (shape.rank != 2) return "needs 2 dimensions";
  if (grouped && shape.dims[1] % kGroup != 0) return "needs columns in multiples of 32";
  return std::nullopt;
}

void require_fit(const Codec& codec, Bytes payload, const Shape& shape) {
  if (const auto reason = codec.refuses(shape)) {
    fail(ErrorKind::Parse, "{} of shape {}: {} {}", codec.name(), shape.text(), codec.name(), *reason);
  }
  const auto size = codec.nbytes(shape);
  if (size && *size != payload.size()) {
    fail(ErrorKind::Bounds, "{} of shape {} takes {} bytes, the payload has {}", codec.name(), shape.text(), *size,
         payload.size());
  }
}

void require_values(const Codec& codec, std::span<const float> values, const Shape& shape) {
  if (const auto reason = codec.refuses(shape)) {
    fail(ErrorKind::Parse, "{} cannot hold shape {}: it {}", codec.name(), shape.text(), *reason);
  }
  if (values.size() != shape.elements()) {
    fail(ErrorKind::Parse, "shape {} has {} elements, {} values were given", shape.text(), shape.elements(),
         values.size());
  }
}

void Refusals::lower(std::atomic<uint64_t>& lowest, uint64_t index) noexcept {
  uint64_t seen = lowest.load(std::memory_order_relaxed);
  while (index < seen && !lowest.compare_exchange_weak(seen, index, std::memory_order_relaxed)) {
  }
}

void Refusals::raise(const Codec& codec, std::span<const float> values, const Shape& shape) const {
  const uint64_t bad = not_finite_.load(), big = overflow_.load();
  const uint64_t cols = std::max<uint64_t>(1, shape.cols());
  if (bad != kNone) {
    fail(ErrorKind::Parse, "row {}, column {} is {}: only finite values can be stored; repair the checkpoint",
         bad / cols, bad % cols, values[bad]);
  }
  if (big != kNone) {
    fail(ErrorKind::Bounds,
         "row {}, column {} ({}): the value or its group's scale rounds beyond what {} can hold; "
         "store the tensor as f32",
         big / cols, big % cols, values[big], codec.name());
  }
}

namespace {

constexpr uint64_t kBlockValues = 65536;

uint64_t units_per_block(uint64_t width) noexcept {
  return std::max<uint64_t>(1, kBlockValues / std::max<uint64_t>(1, width));
}

}  // namespace

void for_checked_blocks(uint64_t units, uint64_t width, ThreadPool& pool, FunctionRef<void(uint64_t, uint64_t)> body) {
  const uint64_t step = units_per_block(width);
  pool.run((units + step - 1) / step, [&](size_t block) {
    const uint64_t first = block * step;
    body(first, std::min(units, first + step));
  });
}

void for_blocks(std::span<const float> values, uint64_t width, ThreadPool& pool, Refusals& refusals,
                FunctionRef<void(uint64_t, uint64_t)> body) {
  if (values.empty()) return;
  const Loops& run = loops();
  for_checked_blocks((values.size() + width - 1) / width, width, pool, [&](uint64_t first, uint64_t last) {
    const auto part = values.subspan(first * width, std::min(last * width, uint64_t{values.size()}) - first * width);
    if (run.largest_magnitude(part.data(), part.size()) < kInfinityBits) {
      body(first, last);
      return;
    }
    const auto bad = std::find_if(part.begin(), part.end(), [](float v) { return !is_finite(v); });
    refusals.not_finite(first * width + static_cast<uint64_t>(bad - part.begin()));
  });
}

uint64_t find_not_finite(const uint8_t* values, uint64_t count, uint64_t stride, uint16_t exponent,
                         uint64_t at) noexcept {
  // Blocks are looked at without a branch: adding the lowest exponent bit to the exponent carries into the sign's place
  // exactly where all of its bits are set. verify reads every value of a file through this loop.
  constexpr uint64_t kBlock = 64, kLanes = 0x0001000100010001;
  const uint32_t lowest = 0x8000u - exponent;
  while (at < count) {
    if (stride == kQ4TileBytes && exponent == kInfiniteHalf) {
      at += 32 * loops().finite_tiles(values + at * stride, (count - at) / 32);
      if (at == count) break;
    }
    const uint64_t last = std::min(count, at + kBlock);
    uint64_t carries = 0;
    if (stride == 2 && last - at == kBlock) {
      for (uint64_t i = 0; i < kBlock; i += 4) {
        uint64_t four;
        std::memcpy(&four, values + 2 * (at + i), 8);
        carries |= (four & exponent * kLanes) + lowest * kLanes;
      }
    } else {
      for (uint64_t i = at; i < last; ++i) carries |= (load16(values + i * stride) & exponent) + lowest;
    }
    if (carries & 0x8000 * kLanes) {
      for (uint64_t i = at; i < last; ++i) {
        if ((load16(values + i * stride) & exponent) == exponent) return i;
      }
    }
    at = last;
  }
  return count;
}

void check_scales(const uint8_t* scales, uint64_t count, uint64_t stride, size_t limit,
                  std::vector<ValueProblem>& problems, FunctionRef<ValueProblem(uint64_t)> place) {
  constexpr uint16_t kExponent = 0x7C00;
  uint64_t i = find_not_finite(scales, count, stride, kExponent, 0);
  for (; i < count && problems.size() < limit; i = find_not_finite(scales, count, stride, kExponent, i + 1)) {
    problems.push_back(place(i));
    problems.back().message += fmt::format(" is {}", f16_to_f32(load16(scales + i * stride)));
  }
}

}  // namespace cortiq::codec
