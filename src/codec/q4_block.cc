#include <algorithm>

#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/nibbles.h"
#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// q4_block: groups of 32 of the flattened tensor, the last one filled with zeros (facts §5.4). Any shape.
class Q4Block final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q4Block; }
  std::string_view name() const noexcept override { return "q4_block"; }
  std::optional<std::string> refuses(const Shape&) const override { return std::nullopt; }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    return checked_multiply(groups(shape), kQ4TileBytes);
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    if (shape.elements() == 0) return;
    const Q4BlockView view(payload.data(), shape.elements());
    check_scales(view.scale, groups(shape), 2, limit, problems, [cols = shape.cols()](uint64_t g) -> ValueProblem {
      const uint64_t row = g * kGroup / cols;
      return {row, fmt::format("row {}, column {}: the scale of the group beginning there", row, g * kGroup % cols)};
    });
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(*nbytes(shape));
    uint8_t* scales = out.data() + 16 * groups(shape);
    const Loops& run = loops();
    Refusals refusals;
    for_blocks(values, kGroup, pool, refusals, [&](uint64_t first, uint64_t last) {
      const uint64_t whole = std::max(first, std::min(last, uint64_t{values.size()} / kGroup));
      bool infinite = run.quantise4(values.data() + first * kGroup, whole - first, scales + 2 * first, 2,
                                    out.data() + 16 * first, 16);
      if (whole < last) {
        float filled[kGroup] = {};
        std::copy(values.begin() + static_cast<ptrdiff_t>(whole * kGroup), values.end(), filled);
        infinite |= run.quantise4(filled, 1, scales + 2 * whole, 2, out.data() + 16 * whole, 16);
      }
      for (uint64_t g = first; infinite && g < last; ++g) {
        if (load16(scales + 2 * g) == kInfiniteHalf) refusals.overflow(g * kGroup);
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols(), end = (first + count) * cols;
    const Q4BlockView view(payload.data(), shape.elements());
    for (uint64_t at = first * cols; at < end;) {
      const uint64_t group = at / kGroup, skip = at % kGroup, take = std::min(kGroup - skip, end - at);
      const float scale = load_half(view.scale + 2 * group);
      if (take == kGroup) {
        decode_nibbles(view.nibbles + 16 * group, scale, out);
      } else {
        float whole[kGroup];
        decode_nibbles(view.nibbles + 16 * group, scale, whole);
        std::copy(whole + skip, whole + skip + take, out);
      }
      at += take;
      out += take;
    }
  }

 private:
  static uint64_t groups(const Shape& shape) {
    return shape.elements() / kGroup + (shape.elements() % kGroup != 0 ? 1 : 0);
  }
};

}  // namespace

const Codec& q4_block_codec() noexcept {
  static const Q4Block codec;
  return codec;
}

}  // namespace cortiq::codec
