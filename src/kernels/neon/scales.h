#pragma once
// Group scales of a block of 16 rows as f32 [group][16], rows as lanes.
#include "kernels/neon/codes.h"

namespace cortiq::kernels {
namespace {

/// A plane of halves (q4_block, vbit), four groups of four rows at a time.
__attribute__((noinline)) void half_scales(const Planes& w, const Block& block, float* out) {
  for (uint64_t g = 0; g < w.groups; g += 4) {
    const uint64_t n = w.groups - g < 4 ? w.groups - g : 4;
    for (uint32_t row = 0; row < kBlockRows; row += kLanes) {
      uint32x4_t t[4];
#pragma GCC unroll 4
      for (uint32_t r = 0; r < kLanes; ++r) {
        uint16_t halves[4] = {};  // reading on at the end of a row could leave the file
        __builtin_memcpy(halves, block.scales[row + r] + 2 * g, 2 * n);
        t[r] = vreinterpretq_u32_f32(widen_halves(vld1_u16(halves)));
      }
      transpose4(t);
      for (uint64_t i = 0; i < n; ++i) vst1q_f32(out + (g + i) * kBlockRows + row, vreinterpretq_f32_u32(t[i]));
    }
  }
}

/// q4tp: the ladders of the rows side by side, a row's rung by its 5-bit code, LSB first.
__attribute__((noinline)) void rung_scales(const Planes& w, const Block& block, float* out) {
  float ladder[32][kBlockRows];
  for (uint32_t row = 0; row < kBlockRows; row += kLanes) {
    float32x4_t rung = vld1q_f32(block.first + row);
    const float32x4_t ratio = vld1q_f32(block.ratio + row);
    for (uint32_t c = 0; c < 32; ++c) {
      vst1q_f32(&ladder[c][row], rung);
      rung = vmulq_f32(rung, ratio);
    }
  }
  for (uint32_t r = 0; r < kBlockRows; ++r) {
    for (uint64_t g = 0; g < w.groups; g += 8) {
      const uint64_t at = g / 8 * 5, left = w.scale_stride - at;
      uint64_t codes = 0;
      __builtin_memcpy(&codes, block.scales[r] + at, left < 5 ? left : 5);
      for (uint64_t i = g; i < g + 8 && i < w.groups; ++i, codes >>= 5) {
        out[i * kBlockRows + r] = ladder[codes & 31][r];
      }
    }
  }
}

/// Tiles begin with their scale.
__attribute__((noinline)) void tile_scales(const Block& block, uint32_t row, uint32_t rows, uint64_t tile_bytes,
                                           uint64_t first, uint64_t last, float* out) {
  for (const uint32_t end = row + rows; row < end; row += kLanes) {
    for (uint64_t g = first; g < last; ++g) {
      uint16_t halves[kLanes];
      for (uint32_t r = 0; r < kLanes; ++r) halves[r] = load<uint16_t>(block.codes[row + r] + tile_bytes * g);
      vst1q_f32(out + g * kBlockRows + row, widen_halves(vld1_u16(halves)));
    }
  }
}

/// All groups of a block; Q8 has none.
CORTIQ_INLINE void group_scales(const Planes& w, const Block& block, float* out) {
  scales_of_block<half_scales, rung_scales, tile_scales>(w, block, out);
}

}  // namespace
}  // namespace cortiq::kernels
