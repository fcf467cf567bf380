#pragma once
#include "kernels/avx2/shared.h"

// The AVX2 kernels by file. Activations of a single token: per pair of groups 160 bytes, [128 activations][2 × i32
// start] [2 × f32 scale]; for Q8 and Q1 2 × 32 bytes, for Q4 the even, then the odd columns of both groups (16 bytes
// each), for the others 2 × 32 16-bit integers. Of a tile of T ≥ 2 tokens: per group [16 pairs of 16-bit integers][T]
// dwords, then T scales; with VNNI [8 quads of bytes][T] dwords, T start values, T scales. A start value is minus an
// offset times the sum of the activations it belongs to, so that a sum of products with unsigned codes comes out as one
// with signed codes.
//
// What multiplies integers stands in …_body.h and is compiled for two levels, with AVX-VNNI and without.
#if defined(__AVXVNNI__)
#define CORTIQ_LEVEL avxvnni
#define CORTIQ_TABLE kAvxVnniKernels
#else
#define CORTIQ_LEVEL avx2
#define CORTIQ_TABLE kAvx2Kernels
#endif

namespace cortiq::kernels::CORTIQ_LEVEL {

#if defined(__AVXVNNI__)
inline constexpr bool kVnni = true;
inline constexpr uint64_t kTokenGroupBytes = 40;
#else
inline constexpr bool kVnni = false;
inline constexpr uint64_t kTokenGroupBytes = 68;
#endif
inline constexpr uint64_t kPairBytes = 160, kStartAt = 128, kScaleAt = 136;

/// What is added to a code in a panel of bytes, so that all are unsigned; vbit's reach from −127 to 128.
constexpr int32_t panel_offset(Flavour flavour) noexcept { return flavour == Flavour::Vbit ? 127 : 128; }

void quantise(const QuantiseJob& job) noexcept;
void single(const IntegerJob& job) noexcept;  ///< one token
void panels(const IntegerJob& job) noexcept;  ///< tiles of 2 or 3 tokens

}  // namespace cortiq::kernels::CORTIQ_LEVEL
