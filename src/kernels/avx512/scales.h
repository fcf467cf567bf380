#pragma once
// Group scales of a block of 16 rows as f32 [group][stride], rows
// as lanes.
#include "kernels/avx512/unpack.h"

namespace cortiq::kernels {
namespace {

/// Rungs of the q4tp ladders of 16 rows, [row][32].
struct alignas(64) Ladders {
  float at[kBlockRows][32];
};

// The passes below are not inlined: their need of registers must not disturb the main loops.

__attribute__((noinline)) void make_ladders(const Block& block, Ladders& out) {
  zf rung = _mm512_loadu_ps(block.first);
  const zf ratio = _mm512_loadu_ps(block.ratio);
  for (uint32_t half = 0; half < 2; ++half) {
    zf t[16];
#pragma GCC unroll 16
    for (uint32_t c = 0; c < 16; ++c) {
      t[c] = rung;
      rung = _mm512_mul_ps(rung, ratio);
    }
    transpose16(t);
    for (uint32_t r = 0; r < kBlockRows; ++r) _mm512_store_ps(&out.at[r][16 * half], t[r]);
  }
}

/// Asks for the lines that the main loop will need next while a scale pass keeps the memory idle.
struct Ahead {
  RowPointers rows;  ///< nullptr: nothing to ask for
  uint64_t offset;
};

CORTIQ_INLINE void prefetch_ahead(const Ahead& ahead, uint32_t round, uint32_t r) {
  if (ahead.rows && round < 2) prefetch(ahead.rows[2 * round + r / 8] + ahead.offset + 64 * (r % 8));
}

CORTIQ_INLINE void store_transposed(zf* t, uint64_t groups, float* out, uint64_t stride) {
  transpose16(t);
#pragma GCC unroll 16
  for (uint32_t g = 0; g < 16; ++g) {
    if (g < groups) _mm512_store_ps(out + g * stride, t[g]);
  }
}

/// q4tp, groups [first, last); first is a multiple of 16.
__attribute__((noinline)) void rung_scales(const Block& block, const Ladders& ladders, uint64_t row_bytes,
                                           uint64_t first, uint64_t last, float* out, uint64_t stride, Ahead ahead) {
  // Code i begins in byte 5·i / 8; beyond the tenth byte there are zeros.
  const __m256i spread =
      _mm256_setr_epi8(0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 5, 6, 5, 6, 6, 7, 6, 7, 7, 8, 8, 9, 8, 9, 9, 10);
  const __m256i shift = _mm256_setr_epi16(0, 5, 2, 7, 4, 1, 6, 3, 0, 5, 2, 7, 4, 1, 6, 3);
  uint32_t round = 0;
  for (uint64_t g = first; g < last; g += 16, ++round) {
    const uint64_t at = g / 8 * 5, left = row_bytes - at;
    const __mmask16 have = first_lanes(static_cast<uint32_t>(left < 10 ? left : 10));
    zf t[16];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kBlockRows; ++r) {
      const __m256i bytes = _mm256_broadcastsi128_si256(_mm_maskz_loadu_epi8(have, block.scales[r] + at));
      const __m256i codes = _mm256_srlv_epi16(_mm256_shuffle_epi8(bytes, spread), shift);
      // The look-up takes the lowest five bits.
      t[r] = _mm512_permutex2var_ps(_mm512_load_ps(ladders.at[r]), _mm512_cvtepu16_epi32(codes),
                                    _mm512_load_ps(ladders.at[r] + 16));
      prefetch_ahead(ahead, round, r);
    }
    store_transposed(t, last - g, out + g * stride, stride);
  }
}

/// A plane of halves (q4_block, vbit), groups [first, last).
__attribute__((noinline)) void half_scales(const Block& block, uint64_t first, uint64_t last, float* out,
                                           uint64_t stride, Ahead ahead) {
  uint32_t round = 0;
  for (uint64_t g = first; g < last; g += 16, ++round) {
    const __mmask16 have = last - g < 16 ? first_lanes(static_cast<uint32_t>(last - g)) : 0xFFFF;
    zf t[16];
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kBlockRows; ++r) {
      t[r] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(have, block.scales[r] + 2 * g));
      prefetch_ahead(ahead, round, r);
    }
    store_transposed(t, last - g, out + g * stride, stride);
  }
}

template <Weights W>
inline constexpr bool kTiles = W == Weights::Q4Tiled || W == Weights::Q1t;

/// Tiles of W, groups [first, last).
template <Weights W>
__attribute__((noinline)) void tile_scales(const Block& block, uint64_t first, uint64_t last, float* out,
                                           uint64_t stride) {
  constexpr uint64_t kTile = kStepBytes<W> / 4;
  RowPointers codes = block.codes;
  for (uint64_t g = first; g < last; g += 4) {
    const uint64_t n = last - g < 4 ? last - g : 4;
    asm("" : "+r"(codes));  // the addresses stay in memory: sixteen are more than the registers hold
    zi s[2];
    if (n == 4 && kTile * 4 >= 64) {
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kBlockRows; ++r) collect_scales<W>(load_bytes(codes[r] + kTile * g), r, s);
    } else {
      const __mmask64 have = first_bytes(kTile * n < 64 ? kTile * n : 3 * kTile + 2);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kBlockRows; ++r) {
        collect_scales<W>(_mm512_maskz_loadu_epi8(have, codes[r] + kTile * g), r, s);
      }
    }
    zf scale[4];
    order_scales(s, scale);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      if (i < n) _mm512_store_ps(out + (g + i) * stride, scale[i]);
    }
  }
}

/// All groups of a block; Q8 has none, Q1's come with its signs.
CORTIQ_INLINE void group_scales(const Planes& w, const Block& block, float* out, uint64_t stride) {
  switch (w.weights) {
    case Weights::Q8:
    case Weights::Q1:
      break;
    case Weights::Q4Block:
    case Weights::Vbit:
      half_scales(block, 0, w.groups, out, stride, {});
      break;
    case Weights::Q4tp: {
      Ladders ladders;
      make_ladders(block, ladders);
      rung_scales(block, ladders, w.scale_stride, 0, w.groups, out, stride, {});
      break;
    }
    case Weights::Q4Tiled:
      tile_scales<Weights::Q4Tiled>(block, 0, w.groups, out, stride);
      break;
    case Weights::Q1t:
      tile_scales<Weights::Q1t>(block, 0, w.groups, out, stride);
      break;
  }
}

}  // namespace
}  // namespace cortiq::kernels
