#include <algorithm>
#include <cstring>

#include "codec/layout.h"
#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// f32: the values as they are, any shape.
class F32 final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::F32; }
  std::string_view name() const noexcept override { return "f32"; }
  std::optional<std::string> refuses(const Shape&) const override { return std::nullopt; }
  std::optional<uint64_t> nbytes(const Shape& shape) const override { return checked_multiply(shape.elements(), 4); }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    // As in find_not_finite: a block is looked at value by value only if an exponent in it carries into the sign.
    const uint64_t cols = shape.cols(), count = shape.elements();
    constexpr uint64_t kBlock = 64;
    uint64_t clean = 0;  // values before this one are finite
    for (uint64_t i = 0; i < count && problems.size() < limit; ++i) {
      if (i == clean) {
        uint32_t carries = 0;
        const uint64_t last = std::min(count, i + kBlock);
        for (uint64_t k = i; k < last; ++k) carries |= (load32(payload.data() + 4 * k) & kInfinityBits) + 0x00800000;
        clean = last;
        if (!(carries & 0x80000000)) {
          i = last - 1;
          continue;
        }
      }
      float value;
      std::memcpy(&value, payload.data() + 4 * i, 4);
      if (!is_finite(value)) {
        problems.push_back({i / cols, fmt::format("row {}, column {}: the value is {}", i / cols, i % cols, value)});
      }
    }
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(4 * values.size());
    Refusals refusals;
    for_blocks(values, 1, pool, refusals, [&](uint64_t first, uint64_t last) {
      std::memcpy(out.data() + 4 * first, values.data() + first, 4 * (last - first));
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols();
    if (count * cols != 0) std::memcpy(out, payload.data() + 4 * first * cols, 4 * count * cols);
  }
};

}  // namespace

const Codec& f32_codec() noexcept {
  static const F32 codec;
  return codec;
}

}  // namespace cortiq::codec
