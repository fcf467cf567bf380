#pragma once
#include "kernels/jobs.h"

// The AVX-512 kernels by file. Activations of a single token (but for q1): per step of four groups 256 bytes, [64 low]
// [64 high][16 × i32 start][4 × f32 scale]; for q1t per step of eight groups 448 bytes, [5 planes of 64][16 × i32
// start] [8 × f32 scale]. Of a tile of T ≥ 2 tokens: per group [8 quads of columns][T] dwords, T start values, T
// scales. A start value is minus the flavour's offset times the sum of the activations it belongs to, so that a sum of
// products with unsigned codes comes out as one with signed codes.
//
// All but the float kernels stand in …_body.h and are compiled for two levels, with VNNI and VBMI and without; bytes.h
// has what differs.
#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define CORTIQ_LEVEL avx512vnni
#define CORTIQ_TABLE kAvx512VnniKernels
#else
#define CORTIQ_LEVEL avx512
#define CORTIQ_TABLE kAvx512Kernels
#endif

namespace cortiq::kernels::CORTIQ_LEVEL {

inline constexpr uint64_t kSingleStepBytes = 256, kTernaryStepBytes = 448;

void quantise(const QuantiseJob& job) noexcept;
void single(const IntegerJob& job) noexcept;   ///< one token
void ternary(const IntegerJob& job) noexcept;  ///< one token, q1t
void few(const IntegerJob& job) noexcept;      ///< one tile of 2 … 8 tokens; q1 also of one
void panels(const IntegerJob& job) noexcept;   ///< tiles of 4 … 6 tokens

}  // namespace cortiq::kernels::CORTIQ_LEVEL

namespace cortiq::kernels::avx512 {

void floating(const FloatJob& job) noexcept;
void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept;

}  // namespace cortiq::kernels::avx512
