#pragma once
// q1: eight tiles of 16 rows are transposed as a whole. A word of 32 signs per row then gives the eight quads of its
// group by shifts alone.
#include "kernels/avx512/unpack.h"

namespace cortiq::kernels {
namespace {

inline constexpr uint64_t kSignTile = 6, kSignGroups = 8;

// [8 words of signs][8 halves] from eight tiles.
inline constexpr Permutation kSplitSigns = permutation([](uint32_t i) {
  return i < 32 ? i / 4 * 6 + 2 + i % 4 : i < 48 ? (i - 32) / 2 * 6 + i % 2 : 0;
});

/// Groups [first, first + n), n ≤ 8: signs[k] = the words of group first + k, and the scales.
CORTIQ_INLINE void fill_signs(const Block& block, uint64_t first, uint64_t n, zi* signs, float* scales,
                              uint64_t stride) {
  const __mmask64 have = first_bytes(kSignTile * n);
  zf t[16];
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kBlockRows; ++r) {
    const zi tiles = _mm512_maskz_loadu_epi8(have, block.codes[r] + kSignTile * first);
    t[r] = _mm512_castsi512_ps(permute(kSplitSigns, tiles));
  }
  transpose16(t);
#pragma GCC unroll 8
  for (uint32_t k = 0; k < kSignGroups; ++k) {
    signs[k] = _mm512_castps_si512(t[k]);
    zi halves = _mm512_castps_si512(t[8 + k / 2]);
    if (k % 2) halves = _mm512_srli_epi32(halves, 16);
    if (k < n) _mm512_store_ps(scales + (first + k) * stride, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves)));
  }
}

/// Quad j as 2·sign, of columns j, 8 + j, 16 + j, 24 + j.
CORTIQ_INLINE void sign_quads(zi signs, zi* quad) {
  const zi two = _mm512_set1_epi8(2);
  quad[0] = _mm512_and_si512(_mm512_slli_epi32(signs, 1), two);
#pragma GCC unroll 8
  for (uint32_t j = 1; j < 8; ++j) quad[j] = _mm512_and_si512(_mm512_srli_epi32(signs, j - 1), two);
}

}  // namespace
}  // namespace cortiq::kernels
