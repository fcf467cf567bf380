#include "codec/layout.h"
#include "codec/rows.h"
#include "codec/signs.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// q1: the sign of each weight and the mean magnitude of each group (facts §5.9), for models trained to it.
class Q1 final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q1; }
  std::string_view name() const noexcept override { return "q1"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, true); }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    return checked_multiply(shape.elements() / kGroup, kQ1TileBytes);
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t groups = shape.cols() / kGroup;
    check_scales(payload.data(), shape.rows() * groups, kQ1TileBytes, limit, problems, scale_of_group(groups));
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t cols = shape.cols();
    std::vector<uint8_t> out(*nbytes(shape));
    Refusals refusals;
    for_blocks(values, cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        float carry = 0;
        for (uint64_t at = r * cols; at < (r + 1) * cols; at += kGroup) {
          uint8_t* tile = out.data() + at / kGroup * kQ1TileBytes;
          const bool fits = options.error_diffusion
                                ? encode_diffused(
                                      values.data() + at, [](uint32_t) { return false; }, carry, tile)
                                : encode_plain(values.data() + at, tile);
          if (!fits) refusals.overflow(at);
        }
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t groups = shape.cols() / kGroup;
    decode_signs(payload.data() + first * groups * kQ1TileBytes, count * groups, out);
  }

 private:
  static bool encode_plain(const float* v, uint8_t* tile) noexcept {
    float sum = 0;  // in element order
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kGroup; ++i) {
      sum += v[i] < 0 ? -v[i] : v[i];
      bits |= uint32_t{v[i] >= 0} << i;
    }
    const uint16_t half = scale_half(sum / 32);
    store16(tile, half);
    store32(tile + 2, bits);
    return is_finite_half(half);
  }
};

}  // namespace

const Codec& q1_codec() noexcept {
  static const Q1 codec;
  return codec;
}

}  // namespace cortiq::codec
