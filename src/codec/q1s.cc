#include <algorithm>

#include "codec/layout.h"
#include "codec/outliers.h"
#include "codec/rows.h"
#include "codec/signs.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

constexpr uint64_t kEntryBytes = 6;
constexpr float kDefaultKeep = 0.01f, kMostKeep = 0.25f;

/// q1s: q1 with error diffusion, and the largest weights of the tensor kept as halves (facts §5.10).
class Q1s final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q1s; }
  std::string_view name() const noexcept override { return "q1s"; }
  std::optional<std::string> refuses(const Shape& shape) const override {
    if (auto reason = refuse_unless_matrix(shape, true)) return reason;
    if (shape.elements() > uint64_t{UINT32_MAX} + 1) return "needs indices of 32 bits";
    return std::nullopt;
  }
  std::optional<uint64_t> nbytes(const Shape&) const override { return std::nullopt; }

  void validate(Bytes payload, const Shape& shape) const override {
    require_fit(*this, payload, shape);
    const uint64_t elements = shape.elements(), base = elements / kGroup * kQ1TileBytes;
    const uint64_t count = payload.read<uint32_t>(base, "q1s: the number of outliers");
    const uint64_t left = payload.size() - base - 4;
    if (left != count * kEntryBytes) {
      fail(ErrorKind::Bounds, "q1s: {} outliers take {} bytes, {} follow their number", count, count * kEntryBytes,
           left);
    }
    const Q1sView view(payload.data(), shape.rows(), shape.cols());
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t index = load32(view.entries + kEntryBytes * i);
      if (index >= elements) fail(ErrorKind::Bounds, "q1s: outlier {} is element {} of {}", i, index, elements);
      if (i != 0 && index <= load32(view.entries + kEntryBytes * (i - 1))) {
        fail(ErrorKind::Bounds, "q1s: outlier {} is element {}, not behind its predecessor", i, index);
      }
    }
  }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t groups = shape.cols() / kGroup;
    const Q1sView view(payload.data(), shape.rows(), shape.cols());
    check_scales(view.tiles, shape.rows() * groups, kQ1TileBytes, limit, problems, scale_of_group(groups));
    check_scales(view.entries + 4, load32(view.count), kEntryBytes, limit, problems, [&](uint64_t i) -> ValueProblem {
      const uint64_t index = load32(view.entries + kEntryBytes * i), row = index / shape.cols();
      return {row, fmt::format("row {}, column {}: the outlier", row, index % shape.cols())};
    });
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols(), n = values.size();
    const float keep = options.keep < 0 ? kDefaultKeep : std::min(options.keep, kMostKeep);
    const uint64_t wish = outlier_count(n, keep);
    // A value at least this large is an outlier; ties at the threshold all are.
    uint32_t threshold = UINT32_MAX;
    if (wish != 0) threshold = kth_largest(n, wish, pool, [&](uint64_t i) { return magnitude_bits(values[i]); }).key;
    const auto outlier = [&](uint64_t i) { return magnitude_bits(values[i]) >= threshold; };

    Refusals refusals;
    std::vector<uint64_t> begin(rows + 1);
    for_blocks(values, cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        for (uint64_t i = r * cols; i < (r + 1) * cols; ++i) begin[r + 1] += outlier(i) ? 1 : 0;
      }
    });
    refusals.raise(*this, values, shape);
    for (uint64_t r = 0; r < rows; ++r) begin[r + 1] += begin[r];
    if (begin[rows] > UINT32_MAX) fail(ErrorKind::Bounds, "q1s: {} outliers; 32 bits count them", begin[rows]);

    std::vector<uint8_t> out(n / kGroup * kQ1TileBytes + 4 + kEntryBytes * begin[rows]);
    uint8_t* count = out.data() + n / kGroup * kQ1TileBytes;
    store32(count, static_cast<uint32_t>(begin[rows]));
    for_checked_blocks(rows, cols, pool, [&](uint64_t first, uint64_t last) {
      for (uint64_t r = first; r < last; ++r) {
        float carry = 0;
        for (uint64_t at = r * cols; at < (r + 1) * cols; at += kGroup) {
          const auto in_group = [&](uint32_t i) { return outlier(at + i); };
          uint8_t* tile = out.data() + at / kGroup * kQ1TileBytes;
          if (!encode_diffused(values.data() + at, in_group, carry, tile)) refusals.overflow(at);
        }
        uint8_t* entry = count + 4 + kEntryBytes * begin[r];
        for (uint64_t i = r * cols; i < (r + 1) * cols; ++i) {
          if (!outlier(i)) continue;
          const uint16_t half = f32_to_f16(values[i]);
          if (!is_finite_half(half)) refusals.overflow(i);
          store32(entry, static_cast<uint32_t>(i));
          store16(entry + 4, half);
          entry += kEntryBytes;
        }
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = shape.cols(), groups = cols / kGroup;
    const Q1sView view(payload.data(), shape.rows(), cols);
    decode_signs(view.tiles + first * groups * kQ1TileBytes, count * groups, out);

    const uint64_t from = first * cols, to = from + count * cols;
    for (uint64_t i = lower_bound(view, from); i < load32(view.count); ++i) {
      const uint64_t index = load32(view.entries + kEntryBytes * i);
      if (index >= to) break;
      out[index - from] = load_half(view.entries + kEntryBytes * i + 4);
    }
  }

 private:
  // The first entry whose index is not below `index`.
  static uint64_t lower_bound(const Q1sView& view, uint64_t index) noexcept {
    uint64_t low = 0, high = load32(view.count);
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if (load32(view.entries + kEntryBytes * middle) < index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace

const Codec& q1s_codec() noexcept {
  static const Q1s codec;
  return codec;
}

}  // namespace cortiq::codec
