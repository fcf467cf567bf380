#pragma once
// Vector building blocks of the AVX2 kernels, in an anonymous namespace as those of AVX-512 are.
#if defined(__GNUC__) && !defined(__clang__)
// gcc 12's own header writes "undefined" vectors as v = v and then warns about it.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "kernels/level_body.h"

namespace cortiq::kernels {
namespace {

/// Addresses of the rows of a block.
using RowPointers = const uint8_t* const*;

using yi = __m256i;
using yf = __m256;

inline constexpr uint32_t kLanes = 8;  ///< rows that a vector of floats holds: half a block

CORTIQ_INLINE yi load_bytes(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
CORTIQ_INLINE __m128i load_half_vector(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }
CORTIQ_INLINE yi join(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
CORTIQ_INLINE yi broadcast(const uint8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, 4);
  return _mm256_set1_epi32(value);
}
CORTIQ_INLINE yf broadcast_float(const uint8_t* at) { return _mm256_castsi256_ps(broadcast(at)); }
CORTIQ_INLINE float half_value(const uint8_t* at) { return _cvtsh_ss(load<uint16_t>(at)); }
CORTIQ_INLINE void prefetch(const uint8_t* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }

/// The float step of the definition: acc = fma(float(dot), scale, acc).
CORTIQ_INLINE yf accumulate(yi dot, yf scale, yf acc) { return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, acc); }

/// Sums of products of 16-bit pairs: d + a₀·b₀ + a₁·b₁ a dword.
CORTIQ_INLINE yi dot_pairs(yi d, yi a, yi b) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(d, a, b);
#else
  return _mm256_add_epi32(d, _mm256_madd_epi16(a, b));
#endif
}

/// Mask of the first n ≤ 8 lanes.
CORTIQ_INLINE yi first_lanes(uint64_t n) {
  const yi lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

/// Stores the first `rows` outputs; a NaN as 0x7FC00000.
CORTIQ_INLINE void store_outputs(float* y, uint32_t rows, yf value) {
  const yf nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  value = _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)), nan);
  _mm256_maskstore_ps(y, first_lanes(rows < kLanes ? rows : kLanes), value);
}

/// 8×8 transpose of 32-bit elements.
CORTIQ_INLINE void transpose8(yf* r) {
  yf t[8], u[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
    r[4 + i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
  }
}

}  // namespace
}  // namespace cortiq::kernels
