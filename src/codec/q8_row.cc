#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/rows.h"
#include "codec/scale.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// q8_row: one scale per row, S(absmax / 127) (facts §5.2).
class Q8Row final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q8Row; }
  std::string_view name() const noexcept override { return "q8_row"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, false); }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    return checked_add(shape.elements(), 2 * shape.rows());
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const Q8RowView view(payload.data(), shape.rows(), shape.cols());
    check_scales(view.scale, shape.rows(), 2, limit, problems, [](uint64_t r) {
      return ValueProblem{r, fmt::format("row {}: the scale", r)};
    });
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols();
    std::vector<uint8_t> out(*nbytes(shape));
    uint8_t* scales = out.data() + rows * cols;
    const Loops& run = loops();
    Refusals refusals;
    for_blocks(values, cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        const float* row = values.data() + r * cols;
        const uint16_t scale = scale_half(std::bit_cast<float>(run.largest_magnitude(row, cols)) / 127);
        if (!is_finite_half(scale)) refusals.overflow(r * cols);
        store16(scales + 2 * r, scale);
        run.quantise8(row, cols, f16_to_f32(scale), -128, reinterpret_cast<int8_t*>(out.data()) + r * cols);
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols();
    const Q8RowView view(payload.data(), shape.rows(), cols);
    for (uint64_t r = first; r < first + count; ++r, out += cols) {
      const float scale = load_half(view.scale + 2 * r);
      const int8_t* q = view.q + r * cols;
      for (uint64_t c = 0; c < cols; ++c) out[c] = static_cast<float>(q[c]) * scale;
    }
  }
};

}  // namespace

const Codec& q8_row_codec() noexcept {
  static const Q8Row codec;
  return codec;
}

}  // namespace cortiq::codec
