#include "base/half.h"
#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// f16: half precision with the format's own rounding below 2^-14 (facts §5.1).
struct Half {
  static constexpr Dtype kDtype = Dtype::F16;
  static constexpr std::string_view kName = "f16";
  static constexpr uint16_t kExponent = 0x7C00;
  static constexpr auto kFromFloats = &Loops::to_half;
  static float value(uint16_t word) noexcept { return f16_to_f32(word); }
  static void decode(const uint8_t* in, uint64_t count, float* out) { loops().from_half(in, count, out); }
};

/// bf16: the upper half of a single, nearest even.
struct Brain {
  static constexpr Dtype kDtype = Dtype::BF16;
  static constexpr std::string_view kName = "bf16";
  static constexpr uint16_t kExponent = 0x7F80;
  static constexpr auto kFromFloats = &Loops::to_bf16;
  static float value(uint16_t word) noexcept { return bf16_to_f32(word); }
  static void decode(const uint8_t* in, uint64_t count, float* out) noexcept {
    for (uint64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(load16(in + 2 * i));
  }
};

/// Words of 16 bits, any shape.
template <class Format>
class Float16 final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Format::kDtype; }
  std::string_view name() const noexcept override { return Format::kName; }
  std::optional<std::string> refuses(const Shape&) const override { return std::nullopt; }
  std::optional<uint64_t> nbytes(const Shape& shape) const override { return checked_multiply(shape.elements(), 2); }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t cols = shape.cols(), count = shape.elements();
    const auto next = [&](uint64_t from) { return find_not_finite(payload.data(), count, 2, Format::kExponent, from); };
    for (uint64_t i = next(0); i < count && problems.size() < limit; i = next(i + 1)) {
      const float value = Format::value(load16(payload.data() + 2 * i));
      problems.push_back({i / cols, fmt::format("row {}, column {}: the value is {}", i / cols, i % cols, value)});
    }
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(2 * values.size());
    auto* words = reinterpret_cast<uint16_t*>(out.data());
    const auto from_floats = loops().*Format::kFromFloats;
    Refusals refusals;
    for_blocks(values, 1, pool, refusals, [&](uint64_t first, uint64_t last) {
      if (!from_floats(values.data() + first, last - first, words + first)) return;
      uint64_t i = first;
      while ((words[i] & Format::kExponent) != Format::kExponent) ++i;
      refusals.overflow(i);
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    Format::decode(payload.data() + 2 * first * shape.cols(), count * shape.cols(), out);
  }
};

}  // namespace

const Codec& f16_codec() noexcept {
  static const Float16<Half> codec;
  return codec;
}

const Codec& bf16_codec() noexcept {
  static const Float16<Brain> codec;
  return codec;
}

}  // namespace cortiq::codec
