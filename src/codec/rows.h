#pragma once
#include <atomic>
#include <bit>
#include <span>

#include "codec/codec.h"

// What the encoders share: rules of shape and size, and the walk over the rows of a tensor that refuses what no payload
// can hold.
namespace cortiq::codec {

inline constexpr uint32_t kInfinityBits = 0x7F800000;
inline bool is_finite(float value) noexcept {
  return (std::bit_cast<uint32_t>(value) & kInfinityBits) != kInfinityBits;
}

/// The reason why a dtype that is defined for matrices only (and, with `grouped`, for columns in multiples of 32)
/// cannot hold this shape.
std::optional<std::string> refuse_unless_matrix(const Shape& shape, bool grouped);

/// Parse if the codec refuses the shape; Bounds if it has a size formula and the payload has another size.
void require_fit(const Codec& codec, Bytes payload, const Shape& shape);

/// Collects what makes a tensor impossible to encode, from several threads; the report does not depend on their number.
class Refusals {
 public:
  /// The value at this flat index rounds beyond the largest half, or is part of a scale that does.
  void overflow(uint64_t index) noexcept { lower(overflow_, index); }
  void not_finite(uint64_t index) noexcept { lower(not_finite_, index); }
  /// Throws for the lowest index, if any: Parse for a value that is not finite, else Bounds.
  void raise(const Codec& codec, std::span<const float> values, const Shape& shape) const;

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static void lower(std::atomic<uint64_t>& lowest, uint64_t index) noexcept;
  std::atomic<uint64_t> overflow_{kNone}, not_finite_{kNone};
};

/// Encoder's entry: Parse if the codec refuses the shape or the values are not as many as it says.
void require_values(const Codec& codec, std::span<const float> values, const Shape& shape);

/// Calls body(first, last) for blocks of consecutive units that cover [0, units), in parallel, each about a quarter of
/// a megabyte of floats so that it stays in a core's cache between passes. A unit is `width` consecutive values (the
/// last may be shorter); a block with a value that is not finite is left out and noted.
void for_blocks(std::span<const float> values, uint64_t width, ThreadPool& pool, Refusals& refusals,
                FunctionRef<void(uint64_t, uint64_t)> body);

/// Like for_blocks, for later passes over values that have been looked at already.
void for_checked_blocks(uint64_t units, uint64_t width, ThreadPool& pool, FunctionRef<void(uint64_t, uint64_t)> body);

/// The first of the 16-bit floats (`stride` bytes apart, from the one numbered `at` on) whose exponent bits are all
/// set: infinity or NaN; count if there is none. exponent: 0x7C00 for halves, 0x7F80 for bfloat16.
uint64_t find_not_finite(const uint8_t* values, uint64_t count, uint64_t stride, uint16_t exponent,
                         uint64_t at) noexcept;

/// Notes the scales (halves, `stride` bytes apart) that are not finite. place(i) gives the row of a scale and words for
/// it ("row 3, group 4: the scale"), which are completed.
void check_scales(const uint8_t* scales, uint64_t count, uint64_t stride, size_t limit,
                  std::vector<ValueProblem>& problems, FunctionRef<ValueProblem(uint64_t)> place);

/// place for check_scales: `per_row` scales in a row.
inline auto scale_of_group(uint64_t per_row) {
  return [per_row](uint64_t i) -> ValueProblem {
    return {i / per_row, fmt::format("row {}, group {}: the scale", i / per_row, i % per_row)};
  };
}

}  // namespace cortiq::codec
