#include "base/half.h"
#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// bf16: the upper half of a single, nearest even, any shape.
class BF16 final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::BF16; }
  std::string_view name() const noexcept override { return "bf16"; }
  std::optional<std::string> refuses(const Shape&) const override { return std::nullopt; }
  std::optional<uint64_t> nbytes(const Shape& shape) const override { return checked_multiply(shape.elements(), 2); }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t cols = shape.cols(), count = shape.elements();
    constexpr uint16_t kExponent = 0x7F80;
    uint64_t i = find_not_finite(payload.data(), count, 2, kExponent, 0);
    for (; i < count && problems.size() < limit; i = find_not_finite(payload.data(), count, 2, kExponent, i + 1)) {
      const float value = bf16_to_f32(load16(payload.data() + 2 * i));
      problems.push_back({i / cols, fmt::format("row {}, column {}: the value is {}", i / cols, i % cols, value)});
    }
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(2 * values.size());
    auto* words = reinterpret_cast<uint16_t*>(out.data());
    const Loops& run = loops();
    Refusals refusals;
    for_blocks(values, 1, pool, refusals, [&](uint64_t first, uint64_t last) {
      if (!run.to_bf16(values.data() + first, last - first, words + first)) return;
      uint64_t i = first;
      while ((words[i] & 0x7F80) != 0x7F80) ++i;
      refusals.overflow(i);
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols();
    const uint8_t* in = payload.data() + 2 * first * cols;
    for (uint64_t i = 0; i < count * cols; ++i) out[i] = bf16_to_f32(load16(in + 2 * i));
  }
};

}  // namespace

const Codec& bf16_codec() noexcept {
  static const BF16 codec;
  return codec;
}

}  // namespace cortiq::codec
