#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// u8: raw bytes, for the configuration texts of §12; as numbers they are 0 … 255.
class U8 final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::U8; }
  std::string_view name() const noexcept override { return "u8"; }
  std::optional<std::string> refuses(const Shape&) const override { return std::nullopt; }
  std::optional<uint64_t> nbytes(const Shape& shape) const override { return shape.elements(); }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }
  void check_values(Bytes, const Shape&, size_t, std::vector<ValueProblem>&) const override {}

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(values.size());
    Refusals refusals;
    for_blocks(values, 1, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t i = first; i < last; ++i) {
        const bool fits = values[i] >= 0 && values[i] <= 255;
        out[i] = fits ? static_cast<uint8_t>(values[i]) : uint8_t{0};
        if (!fits || static_cast<float>(out[i]) != values[i]) refusals.overflow(i);
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols();
    for (uint64_t i = 0; i < count * cols; ++i) out[i] = static_cast<float>(payload[first * cols + i]);
  }
};

}  // namespace

const Codec& u8_codec() noexcept {
  static const U8 codec;
  return codec;
}

}  // namespace cortiq::codec
