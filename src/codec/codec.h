#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/thread_pool.h"
#include "codec/shape.h"

// The dtypes of §3.1. Each is one file below src/codec and one row of the table behind find(); the definition of a
// layout (size, validation, encoding, decoding) stands there and nowhere else.
namespace cortiq::codec {

enum class Dtype : uint8_t {
  F32 = 0,
  F16 = 1,
  BF16 = 2,
  Q8Row = 3,
  Q4Block = 4,
  U8 = 6,
  Vbit = 8,
  Q8TwoField = 9,
  VbitRo = 10,
  Q4Tiled = 11,
  Q1 = 12,
  Q1s = 13,
  Q1t = 14,
  Q4tp = 15,
};

struct EncodeOptions {
  double mean_bits = 4.25;            ///< vbit: budget per weight, clamped to [3, 8]
  float row_bias = 0;                 ///< vbit: bias_e of FORMAT_FACTS §5.8, added to every row's target
  float keep = -1;                    ///< q1s, q1t: outlier fraction; negative: the codec's default (0.01 and 0)
  std::span<const float> column_rms;  ///< q1t: activation RMS per column; empty: all 1
  bool scale_search = true;           ///< q4tp
  bool error_diffusion = false;       ///< q1: the q1p encoder
};

/// What verify reports about a payload's meaning: a scale that is not finite, a code out of range.
struct ValueProblem {
  uint64_t row = 0;
  std::string message;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual Dtype dtype() const noexcept = 0;
  /// As §3.1 spells it: "q8_row".
  virtual std::string_view name() const noexcept = 0;

  /// Why this dtype cannot hold a tensor of this shape ("needs 2 dimensions", "needs columns in multiples of 32"), or
  /// nothing if it can.
  virtual std::optional<std::string> refuses(const Shape& shape) const = 0;

  /// Exact payload size, or nothing where the payload itself decides (vbit, vbit_ro, q1s, q1t).
  virtual std::optional<uint64_t> nbytes(const Shape& shape) const = 0;

  /// Structure of a payload (size, bit widths, spans, offsets, outlier indices; FORMAT_FACTS §3.2): Parse for a shape
  /// that the dtype refuses, Bounds for a payload that does not fit it. Touches only the small index planes, and
  /// nothing at all for fixed-size dtypes. After it, decoding cannot leave the payload.
  virtual void validate(Bytes payload, const Shape& shape) const = 0;

  /// Calls report for stored scales that are not finite and codes that no encoder writes (verify; decisions 9). The
  /// payload has been validated. At most `limit` reports.
  virtual void check_values(Bytes payload, const Shape& shape, size_t limit,
                            std::vector<ValueProblem>& problems) const = 0;

  /// Encodes a whole tensor, row-major f32. Bytes never depend on the number of threads. Parse, naming row and column,
  /// for NaN or infinity; Bounds, likewise, for a value or scale that half precision cannot hold (decisions 14).
  virtual std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                                      ThreadPool& pool) const = 0;

  /// Decodes rows [first, first + count) of a validated payload into out, count × shape.cols() values.
  virtual void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const = 0;
};

/// The codec of a dtype id, or nullptr for reserved and unknown ids (5, 7, 16…).
const Codec* find(uint8_t id) noexcept;
const Codec& of(Dtype dtype) noexcept;
/// By its name in §3.1; nullptr if there is none.
const Codec* find(std::string_view name) noexcept;
/// All of them, by id.
std::span<const Codec* const> all() noexcept;

inline std::string_view name(Dtype dtype) noexcept { return of(dtype).name(); }

}  // namespace cortiq::codec
