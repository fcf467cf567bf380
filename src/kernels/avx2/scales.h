#pragma once
// Group scales of a block of 16 rows as f32 [group][16], rows as
// lanes.
#include "kernels/avx2/stage.h"

namespace cortiq::kernels {
namespace {

CORTIQ_INLINE void store_transposed(yf* t, uint64_t groups, float* out) {
  transpose8(t);
  for (uint64_t g = 0; g < groups && g < 8; ++g) _mm256_store_ps(out + g * kBlockRows, t[g]);
}

/// One half per row from `at[row] + offset`.
CORTIQ_INLINE yf gather_halves(const uint8_t* const* at, uint64_t offset) {
  const auto half = [&](uint32_t r) __attribute__((always_inline)) {
    return static_cast<int16_t>(load<uint16_t>(at[r] + offset));
  };
  return _mm256_cvtph_ps(_mm_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6), half(7)));
}

// A row's eight halves; fewer at the end of a row, where reading on could leave the file.
CORTIQ_INLINE yf load_halves(const uint8_t* at, uint64_t n) {
  if (n >= 8) return _mm256_cvtph_ps(load_half_vector(at));
  alignas(16) uint16_t halves[8] = {};
  __builtin_memcpy(halves, at, 2 * n);
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(halves)));
}

__attribute__((noinline)) void half_scales(const Planes& w, const Block& block, float* out) {
  for (uint64_t g = 0; g < w.groups; g += 8) {
    for (uint32_t half = 0; half < kBlockRows; half += kLanes) {
      yf t[8];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kLanes; ++r) t[r] = load_halves(block.scales[half + r] + 2 * g, w.groups - g);
      store_transposed(t, w.groups - g, out + g * kBlockRows + half);
    }
  }
}

// Eight rungs of a ladder of 32.
CORTIQ_INLINE yf look_up(const float* ladder, yi code) {
  const auto part = [&](int i) __attribute__((always_inline)) {
    return _mm256_permutevar8x32_ps(_mm256_load_ps(ladder + 8 * i), code);
  };
  const yf bit3 = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)),
           bit4 = _mm256_castsi256_ps(_mm256_slli_epi32(code, 27));
  return _mm256_blendv_ps(_mm256_blendv_ps(part(0), part(1), bit3), _mm256_blendv_ps(part(2), part(3), bit3), bit4);
}

__attribute__((noinline)) void rung_scales(const Planes& w, const Block& block, float* out) {
  alignas(32) float ladders[kBlockRows][32];
  for (uint32_t half = 0; half < kBlockRows; half += kLanes) {
    yf rung = _mm256_loadu_ps(block.first + half);
    const yf ratio = _mm256_loadu_ps(block.ratio + half);
    for (uint32_t c = 0; c < 32; c += 8) {
      yf t[8];
#pragma GCC unroll 8
      for (uint32_t i = 0; i < 8; ++i) {
        t[i] = rung;
        rung = _mm256_mul_ps(rung, ratio);
      }
      transpose8(t);
      for (uint32_t r = 0; r < kLanes; ++r) _mm256_store_ps(&ladders[half + r][c], t[r]);
    }
  }
  for (uint64_t g = 0; g < w.groups; g += 8) {
    const uint64_t at = g / 8 * 5, left = w.scale_stride - at;
    for (uint32_t half = 0; half < kBlockRows; half += kLanes) {
      yf t[8];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kLanes; ++r) {
        uint64_t codes = 0;
        if (left >= 5) {
          codes = load_first<5>(block.scales[half + r] + at);
        } else {
          __builtin_memcpy(&codes, block.scales[half + r] + at, left);
        }
        const uint64_t bytes = _pdep_u64(codes, 0x1F1F1F1F1F1F1F1Full);
        t[r] = look_up(ladders[half + r], _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
      }
      store_transposed(t, w.groups - g, out + g * kBlockRows + half);
    }
  }
}

__attribute__((noinline)) void tile_scales(const Block& block, uint32_t row, uint32_t rows, uint64_t tile_bytes,
                                           uint64_t first, uint64_t last, float* out) {
  for (const uint32_t end = row + rows; row < end; row += kLanes) {
    for (uint64_t g = first; g < last; ++g) {
      _mm256_store_ps(out + g * kBlockRows + row, gather_halves(block.codes + row, tile_bytes * g));
    }
  }
}

/// All groups of a block; Q8 has none.
CORTIQ_INLINE void group_scales(const Planes& w, const Block& block, float* out) {
  scales_of_block<half_scales, rung_scales, tile_scales>(w, block, out);
}

}  // namespace
}  // namespace cortiq::kernels
