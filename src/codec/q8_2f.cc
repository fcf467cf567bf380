#include <algorithm>
#include <cmath>

#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/rows.h"
#include "codec/scale.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

constexpr uint64_t kSumRows = 256;  // rows whose squares are summed before they join the column's total

/// q8_2f: a scale per row times a field over the columns, the columns' root mean square (facts §5.3).
class Q8TwoField final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q8TwoField; }
  std::string_view name() const noexcept override { return "q8_2f"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, false); }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    return checked_add(shape.elements(), 2 * (shape.rows() + shape.cols()));
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const Q8TwoFieldView view(payload.data(), shape.rows(), shape.cols());
    check_scales(view.row_scale, shape.rows(), 2, limit, problems, [](uint64_t r) {
      return ValueProblem{r, fmt::format("row {}: the scale", r)};
    });
    check_scales(view.column_field, shape.cols(), 2, limit, problems, [](uint64_t c) {
      return ValueProblem{0, fmt::format("column {}: the field", c)};
    });
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols();
    std::vector<uint8_t> out(*nbytes(shape));
    uint8_t* scales = out.data() + rows * cols;
    uint8_t* field = scales + 2 * rows;
    const Loops& run = loops();
    Refusals refusals;

    const std::vector<double> squares = block_squares(values, rows, cols, pool, refusals);
    std::vector<float> column(cols);
    for (uint64_t c = 0; c < cols; ++c) {
      double total = 0;
      for (uint64_t at = c; at < squares.size(); at += cols) total += squares[at];
      const double rms = rows == 0 ? 0 : std::sqrt(total / static_cast<double>(rows));
      const uint16_t half = scale_half(static_cast<float>(std::max(rms, 1e-12)));
      if (!is_finite_half(half)) refusals.overflow(c);
      store16(field + 2 * c, half);
      column[c] = f16_to_f32(half);
    }
    refusals.raise(*this, values, shape);

    for_checked_blocks(rows, cols, pool, [&](uint64_t first, uint64_t last) {
      std::vector<float> x(cols);
      for (uint64_t r = first; r < last; ++r) {
        run.divide(values.data() + r * cols, column.data(), cols, x.data());
        const float most = std::max(std::bit_cast<float>(run.largest_magnitude(x.data(), cols)), 1e-12f);
        const uint16_t scale = scale_half(most / 127);
        if (!is_finite_half(scale)) refusals.overflow(r * cols);
        store16(scales + 2 * r, scale);
        run.quantise8(x.data(), cols, f16_to_f32(scale), -127, reinterpret_cast<int8_t*>(out.data()) + r * cols);
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols();
    const Q8TwoFieldView view(payload.data(), shape.rows(), cols);
    std::vector<float> field(cols);
    loops().from_half(view.column_field, cols, field.data());
    for (uint64_t r = first; r < first + count; ++r, out += cols) {
      const float scale = load_half(view.row_scale + 2 * r);
      const int8_t* q = view.q + r * cols;
      for (uint64_t c = 0; c < cols; ++c) out[c] = (static_cast<float>(q[c]) * scale) * field[c];
    }
  }

 private:
  // Sums of squares, one line of columns for every 256 rows.
  static std::vector<double> block_squares(std::span<const float> values, uint64_t rows, uint64_t cols,
                                           ThreadPool& pool, Refusals& refusals) {
    std::vector<double> squares((rows + kSumRows - 1) / kSumRows * cols);
    const Loops& run = loops();
    for_blocks(values, kSumRows * cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first * kSumRows; r < std::min(rows, last * kSumRows); ++r) {
        run.add_squares(values.data() + r * cols, cols, squares.data() + r / kSumRows * cols);
      }
    });
    return squares;
  }
};

}  // namespace

const Codec& q8_2f_codec() noexcept {
  static const Q8TwoField codec;
  return codec;
}

}  // namespace cortiq::codec
