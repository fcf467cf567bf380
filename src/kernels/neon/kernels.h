#pragma once
#include "kernels/jobs.h"

// The NEON kernels by file. Activations of a tile of T tokens: per group [T][32 int8], then T scales, then T start
// values. For Q4 the even columns of a group come first, then the odd ones, as the nibbles of its weights do. Codes are
// signed bytes, what sdot takes; those of vbit are u − 2^(b−1), one less than the definition's, and the start value,
// the sum of the activations, puts that right.
namespace cortiq::kernels::neon {

inline constexpr uint64_t kTokenGroupBytes = 40;

void quantise(const QuantiseJob& job) noexcept;
void single(const IntegerJob& job) noexcept;  ///< one token
void panels(const IntegerJob& job) noexcept;  ///< tiles of 2 … 4 tokens
void floating(const FloatJob& job) noexcept;
void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept;
void decode(const IntegerJob& job, float* out, uint64_t pitch) noexcept;

}  // namespace cortiq::kernels::neon
