#pragma once
#include "kernels/jobs.h"

// The AVX2 kernels by file. Activations of a single token: per pair of groups 160 bytes, [128 activations][2 × i32
// start] [2 × f32 scale]; for Q8 2 × 32 bytes, for Q4 the even, then the odd columns of both groups (16 bytes each)
// with start values −8·Σx, for the others 2 × 32 16-bit integers. Of a tile of T ≥ 2 tokens: per group [16 pairs of
// 16-bit integers][T] dwords, then T scales.
namespace cortiq::kernels::avx2 {

inline constexpr uint64_t kPairBytes = 160, kStartAt = 128, kScaleAt = 136;
inline constexpr uint64_t kTokenGroupBytes = 68;

void quantise(const QuantiseJob& job) noexcept;
void single(const IntegerJob& job) noexcept;  ///< one token
void panels(const IntegerJob& job) noexcept;  ///< tiles of 2 or 3 tokens
void floating(const FloatJob& job) noexcept;
void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept;
void decode(const IntegerJob& job, float* out, uint64_t pitch) noexcept;  ///< used with AVX-512 too

}  // namespace cortiq::kernels::avx2
