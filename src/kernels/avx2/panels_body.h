#pragma once
// Matrix × several tokens: 16 rows are unpacked once and meet 2 or 3 tokens at a time: 6 integer and 6 float
// accumulators. With VNNI to unsigned bytes, [group][8 quads of columns][16 rows][4]. Without it to 16-bit integers,
// [group][16 pairs][16 rows][2]: a product of bytes either saturates there or needs a sign move for each row and token;
// 16 bits take the same number of instructions and one path for all dtypes.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/scales.h"
#include "kernels/rows_ahead.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr uint32_t kDwords = kVnni ? 8 : 16;                   // columns of a group, as many at a time as a dword holds
constexpr uint64_t kPanelGroup = kDwords * kBlockRows * 4;     // bytes
constexpr uint32_t kStartRow = 8, kScaleRow = kVnni ? 9 : 16;  // of a tile's activations

#if defined(__AVXVNNI__)
CORTIQ_INLINE yi dot_dword(yi d, yi w, yi x) { return _mm256_dpbusd_avx_epi32(d, w, x); }
#else
CORTIQ_INLINE yi dot_dword(yi d, yi w, yi x) { return dot_pairs(d, w, x); }
#endif

/// Part `part` of a row's group (`stage`: 32 values) as the panel holds it, 32 bytes.
template <Weights W>
CORTIQ_INLINE yi panel_part(const int16_t* stage, uint32_t part) {
  if constexpr (!kVnni) return load_bytes(stage + 16 * part);
  const yi offset = _mm256_set1_epi16(panel_offset(W == Weights::Vbit ? Flavour::Vbit : Flavour::Q8));
  const yi first = _mm256_add_epi16(load_bytes(stage), offset),
           second = _mm256_add_epi16(load_bytes(stage + 16), offset);
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xD8);
}

template <Weights W>
void fill_panel(const Planes& w, const Block& block, int16_t* stage, uint8_t* panel) {
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    fill_stage<W>(w, block, 0, kBlockRows, first, last, stage);
    for (uint64_t g = first; g < last; ++g) {
      for (uint32_t half = 0; half < 2; ++half) {  // of the rows
        for (uint32_t part = 0; part < kDwords / 8; ++part) {
          yf t[8];
#pragma GCC unroll 8
          for (uint32_t r = 0; r < kLanes; ++r) {
            const int16_t* at = stage + kStageRow * (kLanes * half + r) + 32 * (g - first);
            t[r] = _mm256_castsi256_ps(panel_part<W>(at, part));
          }
          transpose8(t);
          uint8_t* out = panel + kPanelGroup * g + 512 * part + 32 * half;
          for (uint32_t k = 0; k < 8; ++k)
            _mm256_store_si256(reinterpret_cast<yi*>(out + 64 * k), _mm256_castps_si256(t[k]));
        }
      }
    }
  }
}

template <bool SCALED, uint32_t T>
void multiply_tile(const uint8_t* panel, const float* scales, uint64_t groups, const uint8_t* token, RowsAhead& ahead,
                   yf* acc) {
  yf sum[2 * T];
#pragma GCC unroll 6
  for (uint32_t i = 0; i < 2 * T; ++i) sum[i] = _mm256_setzero_ps();
  for (uint64_t g = 0; g < groups; ++g, panel += kPanelGroup, scales += kBlockRows, token += kTokenGroupBytes * T) {
    ahead.some();
    yi dot[2 * T];
#pragma GCC unroll 3
    for (uint32_t t = 0; t < T; ++t) {
      dot[2 * t] = dot[2 * t + 1] = kVnni ? broadcast(token + 4 * (kStartRow * T + t)) : _mm256_setzero_si256();
    }
#pragma GCC unroll 4
    for (uint32_t k = 0; k < kDwords; ++k) {
      const yi w0 = load_bytes(panel + 64 * k), w1 = load_bytes(panel + 64 * k + 32);
#pragma GCC unroll 3
      for (uint32_t t = 0; t < T; ++t) {
        const yi x = broadcast(token + 4 * (k * T + t));
        dot[2 * t] = dot_dword(dot[2 * t], w0, x);
        dot[2 * t + 1] = dot_dword(dot[2 * t + 1], w1, x);
      }
    }
#pragma GCC unroll 3
    for (uint32_t t = 0; t < T; ++t) {
      const yf x = broadcast_float(token + 4 * (kScaleRow * T + t));
      sum[2 * t] = accumulate(dot[2 * t], SCALED ? _mm256_mul_ps(_mm256_load_ps(scales), x) : x, sum[2 * t]);
      sum[2 * t + 1] =
          accumulate(dot[2 * t + 1], SCALED ? _mm256_mul_ps(_mm256_load_ps(scales + kLanes), x) : x, sum[2 * t + 1]);
    }
  }
#pragma GCC unroll 6
  for (uint32_t i = 0; i < 2 * T; ++i) acc[i] = sum[i];
}

template <Weights W>
void multiply(const IntegerJob& job) {
  constexpr bool kScaled = W != Weights::Q8;
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  auto* panel = reinterpret_cast<uint8_t*>(scales + kBlockRows * w.groups);
  auto* stage = reinterpret_cast<int16_t*>(panel + kPanelGroup * w.groups);
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    const Block& block = blocks[turn];
    RowsAhead ahead;
    if (at + kBlockRows < job.count) {
      fill_block(job, at + kBlockRows, blocks[turn ^ 1]);
      const uint64_t row_bytes = W == Weights::Vbit ? w.cols / 2 : w.code_stride;
      ahead = RowsAhead(&blocks[turn ^ 1], kBlockRows, row_bytes / 64, job.tile_count, w.groups);
    }
    group_scales(w, block, scales);
    fill_panel<W>(w, block, stage, panel);
    for (uint32_t i = 0; i < job.tile_count; ++i) {
      const Tile& tile = job.tiles[i];
      ahead.begin_tile();
      const uint8_t* token = job.activations + tile.first * job.token_bytes;
      yf acc[6];
      if (tile.tokens == 2) {
        multiply_tile<kScaled, 2>(panel, scales, w.groups, token, ahead, acc);
      } else {
        multiply_tile<kScaled, 3>(panel, scales, w.groups, token, ahead, acc);
      }
      for (uint32_t t = 0; t < tile.tokens; ++t) {
        for (uint32_t row = 0; row < block.rows; row += kLanes) {
          yf y = acc[2 * t + row / kLanes];
          if constexpr (!kScaled) y = _mm256_mul_ps(y, _mm256_loadu_ps(block.row_scale + row));
          store_outputs(job.y + (tile.first + t) * job.y_stride + at + row, block.rows - row, y);
        }
      }
    }
  }
}

}  // namespace

void panels(const IntegerJob& job) noexcept {
  for_weights(job.weight->weights, [&]<Weights W>() { multiply<W>(job); });
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
