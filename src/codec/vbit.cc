#include "codec/vbit.h"

#include <algorithm>
#include <cmath>

#include "codec/exp2_log2.h"
#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/rows.h"
#include "codec/scale.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

constexpr uint8_t kLevels[] = {3, 4, 5, 6, 8};

bool is_level(uint8_t bits) noexcept {
  return std::find(std::begin(kLevels), std::end(kLevels), bits) != std::end(kLevels);
}

uint64_t row_bytes(uint64_t cols, uint8_t bits) noexcept { return cols / 8 * bits; }

// Bits per row: each row's log amplitude above or below the mean moves it from the budget (facts §5.7).
std::vector<uint8_t> allocate(std::span<const float> amplitude, const EncodeOptions& options) {
  const float mean_bits = vbit_budget(options.mean_bits);
  float sum = 0;
  for (const float a : amplitude) sum += a;
  const float mean = sum / static_cast<float>(amplitude.size());
  std::vector<uint8_t> bits;
  for (const float a : amplitude) bits.push_back(vbit_level(mean_bits + ((a - mean) + options.row_bias)));
  return bits;
}

// One group of 32 codes, most significant bit first: 4·bits bytes.
void pack_group(const float* v, float scale, uint8_t bits, uint8_t* out) noexcept {
  const float middle = static_cast<float>((1 << (bits - 1)) - 1), top = static_cast<float>((1 << bits) - 1);
  uint32_t held = 0, count = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    const float u = std::clamp(round_even(v[i] / scale) + middle, 0.0f, top);
    held = held << bits | static_cast<uint32_t>(u);
    for (count += bits; count >= 8; count -= 8) *out++ = static_cast<uint8_t>(held >> (count - 8));
  }
}

void unpack_group(const uint8_t* in, float scale, uint8_t bits, float* out) noexcept {
  const int32_t middle = (1 << (bits - 1)) - 1;
  const uint32_t mask = (1u << bits) - 1;
  uint32_t held = 0, count = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    for (; count < bits; count += 8) held = held << 8 | *in++;
    count -= bits;
    out[i] = static_cast<float>(static_cast<int32_t>(held >> count & mask) - middle) * scale;
  }
}

/// vbit and vbit_ro: 3 to 8 bits a row, a scale per group (facts §5.7); vbit_ro adds the rows' offsets.
class VbitCodec final : public Codec {
 public:
  explicit constexpr VbitCodec(bool with_offsets) : with_offsets_(with_offsets) {}

  Dtype dtype() const noexcept override { return with_offsets_ ? Dtype::VbitRo : Dtype::Vbit; }
  std::string_view name() const noexcept override { return with_offsets_ ? "vbit_ro" : "vbit"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, true); }
  std::optional<uint64_t> nbytes(const Shape&) const override { return std::nullopt; }

  void validate(Bytes payload, const Shape& shape) const override {
    require_fit(*this, payload, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols(), planes = planes_size(shape);
    if (payload.size() < planes) {
      fail(ErrorKind::Bounds, "{} of shape {} begins with {} bytes of widths, scales and offsets, the payload has {}",
           name(), shape.text(), planes, payload.size());
    }
    const VbitView view(payload.data(), rows, cols, with_offsets_);
    const uint64_t packed = payload.size() - planes;
    uint64_t end = 0;
    for (uint64_t r = 0; r < rows; ++r) {
      const uint8_t bits = view.bits[r];
      if (!is_level(bits)) fail(ErrorKind::Bounds, "row {} has {} bits a weight; 3, 4, 5, 6 and 8 exist", r, bits);
      if (with_offsets_ && load32(view.offsets + 4 * r) != end) {
        fail(ErrorKind::Bounds, "row {} begins at {} of the packed rows, its predecessors end at {}", r,
             load32(view.offsets + 4 * r), end);
      }
      end += row_bytes(cols, bits);
      if (end > packed) fail(ErrorKind::Bounds, "row {} ends at {} of {} bytes of packed rows", r, end, packed);
    }
    if (with_offsets_ && load32(view.offsets + 4 * rows) != end) {
      fail(ErrorKind::Bounds, "the packed rows end at {}, their last offset is {}", end,
           load32(view.offsets + 4 * rows));
    }
    if (end != packed)
      fail(ErrorKind::Bounds, "the packed rows end at {}, the payload has {} bytes of them", end, packed);
  }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t groups = shape.cols() / kGroup;
    const VbitView view(payload.data(), shape.rows(), shape.cols(), with_offsets_);
    check_scales(view.scale, shape.rows() * groups, 2, limit, problems, scale_of_group(groups));
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols(), groups = cols / kGroup;
    Refusals refusals;
    std::vector<float> amplitude(rows);
    for_blocks(values, cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        const float most = std::bit_cast<float>(loops().largest_magnitude(values.data() + r * cols, cols));
        amplitude[r] = log2_of(std::max(most, 1e-12f));
      }
    });
    refusals.raise(*this, values, shape);

    const std::vector<uint8_t> bits = allocate(amplitude, options);
    std::vector<uint64_t> begin(rows + 1);
    for (uint64_t r = 0; r < rows; ++r) begin[r + 1] = begin[r] + row_bytes(cols, bits[r]);
    if (with_offsets_ && begin[rows] > UINT32_MAX) {
      fail(ErrorKind::Bounds, "vbit_ro: {} bytes of packed rows are more than 32-bit offsets reach; use vbit",
           begin[rows]);
    }

    std::vector<uint8_t> out(planes_size(shape) + begin[rows]);
    std::copy(bits.begin(), bits.end(), out.begin());
    uint8_t* scales = out.data() + rows;
    uint8_t* offsets = scales + 2 * rows * groups;
    uint8_t* packed = out.data() + planes_size(shape);
    for (uint64_t r = 0; with_offsets_ && r <= rows; ++r) store32(offsets + 4 * r, static_cast<uint32_t>(begin[r]));
    for_checked_blocks(rows, cols, pool, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        const float most_level = static_cast<float>((1 << (bits[r] - 1)) - 1);
        for (uint64_t g = 0; g < groups; ++g) {
          const float* v = values.data() + r * cols + g * kGroup;
          const float most = std::bit_cast<float>(loops().largest_magnitude(v, kGroup));
          const uint16_t scale = scale_half(most / most_level);
          if (!is_finite_half(scale)) refusals.overflow(r * cols + g * kGroup);
          store16(scales + 2 * (r * groups + g), scale);
          pack_group(v, f16_to_f32(scale), bits[r], packed + begin[r] + 4 * g * bits[r]);
        }
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols(), groups = cols / kGroup;
    const VbitView view(payload.data(), shape.rows(), cols, with_offsets_);
    uint64_t at = 0;
    if (with_offsets_) {
      at = load32(view.offsets + 4 * first);
    } else {
      for (uint64_t r = 0; r < first; ++r) at += row_bytes(cols, view.bits[r]);
    }
    for (uint64_t r = first; r < first + count; ++r) {
      const uint8_t bits = view.bits[r];
      for (uint64_t g = 0; g < groups; ++g, at += 4 * uint64_t{bits}, out += kGroup) {
        unpack_group(view.packed + at, load_half(view.scale + 2 * (r * groups + g)), bits, out);
      }
    }
  }

 private:
  // Widths, scales and offsets.
  uint64_t planes_size(const Shape& shape) const {
    const uint64_t rows = shape.rows();
    const uint64_t scales = checked_multiply(2 * rows, shape.cols() / kGroup, "vbit scales");
    return checked_add(scales, rows + (with_offsets_ ? 4 * (rows + 1) : 0), "vbit planes");
  }

  bool with_offsets_;
};

}  // namespace

uint8_t vbit_level(float target) noexcept {
  uint8_t best = kLevels[0];
  for (const uint8_t level : kLevels) {
    if (std::fabs(static_cast<float>(level) - target) < std::fabs(static_cast<float>(best) - target)) best = level;
  }
  return best;
}

float vbit_budget(double mean_bits) noexcept {
  return static_cast<float>(std::floor(1000 * std::clamp(mean_bits, 3.0, 8.0))) / 1000;
}

const Codec& vbit_codec() noexcept {
  static const VbitCodec codec(false);
  return codec;
}
const Codec& vbit_ro_codec() noexcept {
  static const VbitCodec codec(true);
  return codec;
}

}  // namespace cortiq::codec
