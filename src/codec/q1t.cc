#include <algorithm>
#include <cmath>

#include "codec/layout.h"
#include "codec/outliers.h"
#include "codec/rows.h"
#include "codec/scale.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

constexpr uint64_t kEntryBytes = 4, kCodeBytes = 7;
constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};

/// The weights of a row on their way to ternary codes. Outliers have code 0 and take part in nothing.
struct Row {
  const float* v = nullptr;
  std::vector<double> weight;    ///< by column: the square of the activation's RMS
  std::vector<uint8_t> outlier;  ///< by column: 0 or 1
  std::vector<uint8_t> code;     ///< by column: 0, 1 (+s), 2 (-s)
  std::vector<float> scale;      ///< by group

  Row(uint64_t cols, std::span<const float> rms) : weight(cols, 1.0), outlier(cols), code(cols), scale(cols / kGroup) {
    for (uint64_t c = 0; c < rms.size(); ++c) {
      const double r = static_cast<double>(rms[c]);
      weight[c] = r * r;
    }
  }
};

/// What the codes 0, 1, 2 stand for.
struct Levels {
  double value[3];
  explicit Levels(float scale) : value{0, static_cast<double>(scale), -static_cast<double>(scale)} {}
  double operator[](uint8_t code) const noexcept { return value[code]; }
};

uint8_t code_of(bool plus, bool minus) noexcept { return static_cast<uint8_t>(uint32_t{plus} | uint32_t{minus} << 1); }

// Chooses scale and codes of columns [begin, begin + 32): the mean magnitude with a threshold of half of it, or the
// level that is best for the weights above 0.7 of the mean, whichever errs less. Sums are in element order, to which
// an outlier adds +0: that changes no partial sum, all of them being positive or +0.
void encode_group(Row& row, uint64_t begin) noexcept {
  const float* v = row.v + begin;
  const double* weight = row.weight.data() + begin;
  const uint8_t* outlier = row.outlier.data() + begin;
  float sum = 0;
  uint32_t count = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    sum += outlier[i] ? 0.0f : std::fabs(v[i]);
    count += 1u - outlier[i];
  }
  const float mean = count == 0 ? 0.0f : sum / static_cast<float>(count);
  const float scale_a = f16_to_f32(scale_half(mean)), threshold_a = 0.5f * scale_a, threshold_b = 0.7f * mean;

  double num = 0, den = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    const float magnitude = std::fabs(v[i]);
    const double counted = !outlier[i] && magnitude >= threshold_b ? weight[i] : 0.0;
    num += counted * static_cast<double>(magnitude);
    den += counted;
  }
  const float scale_b = den == 0 ? scale_a : f16_to_f32(scale_half(static_cast<float>(num / den)));

  const Levels level_a(scale_a), level_b(scale_b);
  uint8_t code_a[kGroup], code_b[kGroup];
  double error_a = 0, error_b = 0;
  for (uint64_t i = 0; i < kGroup; ++i) {
    const bool inside = !outlier[i], large = inside && std::fabs(v[i]) >= threshold_b;
    code_a[i] = code_of(inside && v[i] >= threshold_a, inside && v[i] <= -threshold_a);
    code_b[i] = code_of(large && v[i] >= 0, large && v[i] < 0);
    const double counted = inside ? weight[i] : 0.0;
    const double miss_a = static_cast<double>(v[i]) - level_a[code_a[i]];
    const double miss_b = static_cast<double>(v[i]) - level_b[code_b[i]];
    error_a += counted * (miss_a * miss_a);
    error_b += counted * (miss_b * miss_b);
  }
  const bool second = error_b < error_a;
  row.scale[begin / kGroup] = second ? scale_b : scale_a;
  std::copy_n(second ? code_b : code_a, kGroup, row.code.begin() + static_cast<ptrdiff_t>(begin));
}

// One factor for all scales of a row that makes up for the shrinking by thresholds; the products may be subnormal
// halves: they are not floored again.
void correct_row(Row& row) noexcept {
  double num = 0, den = 0;
  for (uint64_t begin = 0; begin < row.code.size(); begin += kGroup) {
    const Levels level(row.scale[begin / kGroup]);
    for (uint64_t c = begin; c < begin + kGroup; ++c) {
      const double q = level[row.code[c]];
      num += q * static_cast<double>(row.v[c]) * row.weight[c];
      den += q * q * row.weight[c];
    }
  }
  if (den <= 1e-20) return;
  const float alpha = static_cast<float>(std::clamp(num / den, 0.5, 2.0));
  for (float& scale : row.scale) scale *= alpha;
}

/// q1t: -s, 0, +s per weight, five codes a byte, and outliers kept as halves (facts §5.11).
class Q1t final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q1t; }
  std::string_view name() const noexcept override { return "q1t"; }
  std::optional<std::string> refuses(const Shape& shape) const override {
    if (auto reason = refuse_unless_matrix(shape, true)) return reason;
    if (shape.dims[1] > 65536) return "needs at most 65536 columns";
    return std::nullopt;
  }
  std::optional<uint64_t> nbytes(const Shape&) const override { return std::nullopt; }

  void validate(Bytes payload, const Shape& shape) const override {
    require_fit(*this, payload, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols(), planes = planes_size(shape);
    if (payload.size() < planes) {
      fail(ErrorKind::Bounds, "q1t of shape {} begins with {} bytes of tiles and row pointers, the payload has {}",
           shape.text(), planes, payload.size());
    }
    const Q1tView view(payload.data(), rows, cols);
    if (load32(view.row_ptr) != 0)
      fail(ErrorKind::Bounds, "q1t: the first row's outliers begin at {}", load32(view.row_ptr));
    const uint64_t count = load32(view.row_ptr + 4 * rows), left = payload.size() - planes;
    if (left != kEntryBytes * count) {
      fail(ErrorKind::Bounds, "q1t: {} outliers take {} bytes, {} follow the row pointers", count, kEntryBytes * count,
           left);
    }
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t first = load32(view.row_ptr + 4 * r), last = load32(view.row_ptr + 4 * (r + 1));
      if (last < first || last > count) {
        fail(ErrorKind::Bounds, "q1t: the outliers of row {} begin at {} and end at {} of {}", r, first, last, count);
      }
      for (uint64_t i = first; i < last; ++i) {
        const uint64_t column = load16(view.entries + kEntryBytes * i);
        if (column >= cols) fail(ErrorKind::Bounds, "q1t: row {} has an outlier in column {} of {}", r, column, cols);
        if (i != first && column <= load16(view.entries + kEntryBytes * (i - 1))) {
          fail(ErrorKind::Bounds, "q1t: row {}: the outlier in column {} is not behind its predecessor", r, column);
        }
      }
    }
  }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t rows = shape.rows(), groups = shape.cols() / kGroup;
    const Q1tView view(payload.data(), rows, shape.cols());
    check_scales(view.tiles, rows * groups, kQ1tTileBytes, limit, problems, scale_of_group(groups));
    for (uint64_t t = 0; t < rows * groups && problems.size() < limit; ++t) {
      const uint8_t* codes = view.tiles + t * kQ1tTileBytes + 2;
      for (uint64_t j = 0; j < kCodeBytes; ++j) {
        if (codes[j] < (j + 1 < kCodeBytes ? 243 : 9)) continue;
        problems.push_back(
            {t / groups, fmt::format("row {}, group {}: byte {} of the codes is {}, more than its ternary "
                                     "digits give",
                                     t / groups, t % groups, j, codes[j])});
        break;
      }
    }
    for (uint64_t r = 0; r < rows; ++r) {
      const uint64_t first = load32(view.row_ptr + 4 * r), last = load32(view.row_ptr + 4 * (r + 1));
      const uint8_t* entries = view.entries + kEntryBytes * first;
      check_scales(entries + 2, last - first, kEntryBytes, limit, problems, [&](uint64_t i) -> ValueProblem {
        return {r, fmt::format("row {}, column {}: the outlier", r, load16(entries + kEntryBytes * i))};
      });
    }
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                              ThreadPool& pool) const override;

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols(), groups = cols / kGroup;
    const Q1tView view(payload.data(), shape.rows(), cols);
    for (uint64_t r = first; r < first + count; ++r, out += cols) {
      for (uint64_t g = 0; g < groups; ++g) {
        const uint8_t* tile = view.tiles + (r * groups + g) * kQ1tTileBytes;
        const float scale = load_half(tile), level[3] = {0.0f, scale, -scale};
        for (uint64_t i = 0; i < kGroup; ++i) out[g * kGroup + i] = level[tile[2 + i / 5] / kPowers[i % 5] % 3];
      }
      const uint64_t end = load32(view.row_ptr + 4 * (r + 1));
      for (uint64_t i = load32(view.row_ptr + 4 * r); i < end; ++i) {
        out[load16(view.entries + kEntryBytes * i)] = load_half(view.entries + kEntryBytes * i + 2);
      }
    }
  }

 private:
  static uint64_t planes_size(const Shape& shape) {
    return checked_add(checked_multiply(shape.elements() / kGroup, kQ1tTileBytes, "q1t tiles"), 4 * (shape.rows() + 1));
  }
};

/// Which elements are outliers: those with a score above the cut, and of those at the cut the first `ties`.
struct Selection {
  std::span<const float> values, rms;
  uint64_t cols;
  uint32_t cut = UINT32_MAX;
  uint64_t ties = 0;

  uint32_t score(uint64_t i) const noexcept {
    const float magnitude = std::bit_cast<float>(magnitude_bits(values[i]));
    return magnitude_bits(rms.empty() ? magnitude : magnitude * rms[i % cols]);
  }
};

Selection select(std::span<const float> values, const Shape& shape, const EncodeOptions& options, ThreadPool& pool) {
  Selection chosen{values, options.column_rms, shape.cols()};
  const uint64_t n = values.size(), count = outlier_count(n, std::clamp(options.keep, 0.0f, 1.0f));
  if (count == 0 || count == n) return chosen;
  const Cut cut = kth_largest(n, count, pool, [&](uint64_t i) { return chosen.score(i); });
  chosen.cut = cut.key;
  chosen.ties = count - cut.greater;
  return chosen;
}

std::vector<uint8_t> Q1t::encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                                 ThreadPool& pool) const {
  require_values(*this, values, shape);
  const uint64_t rows = shape.rows(), cols = shape.cols(), groups = cols / kGroup;
  const auto sane = [](float rms) { return is_finite(rms) && rms >= 0; };
  if (!options.column_rms.empty() &&
      (options.column_rms.size() != cols || !std::all_of(options.column_rms.begin(), options.column_rms.end(), sane))) {
    fail(ErrorKind::Usage, "q1t: the activation RMS must be {} finite numbers, one for each column", cols);
  }
  Refusals refusals;
  for_blocks(values, cols, pool, refusals, [](uint64_t, uint64_t) {});
  refusals.raise(*this, values, shape);

  // Outliers above the cut and at it, by row; then how many of those at it each row may take.
  const Selection chosen = select(values, shape, options, pool);
  std::vector<uint32_t> begin(rows + 1), ties(rows);
  if (chosen.cut != UINT32_MAX) {
    for_checked_blocks(rows, cols, pool, [&](uint64_t first, uint64_t last) {
      for (uint64_t i = first * cols; i < last * cols; ++i) {
        const uint32_t score = chosen.score(i);
        begin[i / cols + 1] += score > chosen.cut ? 1 : 0;
        ties[i / cols] += score == chosen.cut ? 1 : 0;
      }
    });
  }
  uint64_t left = chosen.ties, total = 0;
  for (uint64_t r = 0; r < rows; ++r) {
    ties[r] = static_cast<uint32_t>(std::min<uint64_t>(ties[r], left));
    left -= ties[r];
    total += begin[r + 1] + ties[r];
    if (total > UINT32_MAX) fail(ErrorKind::Bounds, "q1t: more outliers than 32 bits count");
    begin[r + 1] = static_cast<uint32_t>(total);
  }

  std::vector<uint8_t> out(planes_size(shape) + kEntryBytes * total);
  uint8_t* row_ptr = out.data() + rows * groups * kQ1tTileBytes;
  uint8_t* entries = row_ptr + 4 * (rows + 1);
  for (uint64_t r = 0; r <= rows; ++r) store32(row_ptr + 4 * r, begin[r]);

  for_checked_blocks(rows, cols, pool, [&](uint64_t first, uint64_t last) {
    Row row(cols, options.column_rms);
    for (uint64_t r = first; r < last; ++r) {
      row.v = values.data() + r * cols;
      uint8_t* entry = entries + kEntryBytes * begin[r];
      uint32_t at_cut = 0;
      for (uint64_t c = 0; c < cols; ++c) {
        const uint32_t score = chosen.cut == UINT32_MAX ? 0 : chosen.score(r * cols + c);
        row.outlier[c] = score > chosen.cut || (score == chosen.cut && at_cut++ < ties[r]) ? 1 : 0;
        if (!row.outlier[c]) continue;
        const uint16_t half = f32_to_f16(row.v[c]);
        if (!is_finite_half(half)) refusals.overflow(r * cols + c);
        store16(entry, static_cast<uint16_t>(c));
        store16(entry + 2, half);
        entry += kEntryBytes;
      }
      for (uint64_t g = 0; g < groups; ++g) encode_group(row, g * kGroup);
      correct_row(row);
      for (uint64_t g = 0; g < groups; ++g) {
        uint8_t* tile = out.data() + (r * groups + g) * kQ1tTileBytes;
        const uint16_t half = f32_to_f16(row.scale[g]);
        if (!is_finite_half(half)) refusals.overflow(r * cols + g * kGroup);
        store16(tile, half);
        for (uint64_t i = 0; i < kGroup; ++i) {
          tile[2 + i / 5] = static_cast<uint8_t>(tile[2 + i / 5] + row.code[g * kGroup + i] * kPowers[i % 5]);
        }
      }
    }
  });
  refusals.raise(*this, values, shape);
  return out;
}

}  // namespace

const Codec& q1t_codec() noexcept {
  static const Q1t codec;
  return codec;
}

}  // namespace cortiq::codec
