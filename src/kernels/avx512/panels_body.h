#pragma once
// Matrix × many tokens. 32 rows are unpacked once to unsigned bytes, [group][8 quads][2 × 16 rows][4 columns], a panel
// that stays in the L2 cache while all tokens pass, 4 … 6 at a time: 12 integer and 12 float accumulators in registers,
// the activations one stream whose dwords are broadcast by the multiply itself and shared by both halves of the panel.
// The multiply, the fused multiply-add and the product of scales share two ports: 96 + 12 + 12 a group and 6 tokens.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/quads.h"
#include "kernels/rows_ahead.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr uint32_t kPanelRows = 2 * kBlockRows;
constexpr uint64_t kPanelGroup = 32 * kPanelRows;  // bytes

struct Panel {
  uint8_t* codes;
  float* scales;  ///< [group][32]
  uint8_t* stage;
};

template <Weights W>
void fill_panel(const Planes& w, const Block* blocks, const Panel& panel) {
  for (uint32_t half = 0; half < 2; ++half) {
    group_scales(w, blocks[half], panel.scales + kBlockRows * half, kPanelRows);
    uint8_t* out = panel.codes + 64 * half;
    for_groups<W>(
        w, blocks[half], panel.stage, panel.scales + kBlockRows * half,
        kPanelRows, [&](uint64_t g, const zi* quad) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (uint32_t k = 0; k < 8; ++k) _mm512_store_si512(out + kPanelGroup * g + 128 * k, quad[k]);
        });
  }
}

template <bool SCALED, bool SMALL, uint32_t T>
void multiply_tile(const Panel& panel, uint64_t groups, const uint8_t* token, RowsAhead& ahead, zf* acc) {
  zf sum[2 * T];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < 2 * T; ++i) sum[i] = _mm512_setzero_ps();
  const uint8_t* codes = panel.codes;
  const float* scales = panel.scales;
  for (uint64_t g = 0; g < groups; ++g, codes += kPanelGroup, scales += kPanelRows, token += 40 * T) {
    ahead.some();
    zi dot[2 * T];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) {
      dot[2 * t] = dot[2 * t + 1] = dot_begin<SMALL>(broadcast(token + 4 * (8 * T + t)));
    }
#pragma GCC unroll 8
    for (uint32_t k = 0; k < 8; ++k) {
      const zi w0 = _mm512_load_si512(codes + 128 * k), w1 = _mm512_load_si512(codes + 128 * k + 64);
#pragma GCC unroll 8
      for (uint32_t t = 0; t < T; ++t) {
        const zi x = broadcast(token + 4 * (k * T + t));
        dot[2 * t] = dot_add<SMALL>(dot[2 * t], w0, x);
        dot[2 * t + 1] = dot_add<SMALL>(dot[2 * t + 1], w1, x);
      }
    }
    const zf s0 = SCALED ? _mm512_load_ps(scales) : _mm512_setzero_ps();
    const zf s1 = SCALED ? _mm512_load_ps(scales + kBlockRows) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) {
      const zf x = broadcast_float(token + 4 * (9 * T + t));
      const zi start = broadcast(token + 4 * (8 * T + t));
      dot[2 * t] = dot_end<SMALL>(dot[2 * t], start);
      dot[2 * t + 1] = dot_end<SMALL>(dot[2 * t + 1], start);
      sum[2 * t] = accumulate(dot[2 * t], SCALED ? _mm512_mul_ps(s0, x) : x, sum[2 * t]);
      sum[2 * t + 1] = accumulate(dot[2 * t + 1], SCALED ? _mm512_mul_ps(s1, x) : x, sum[2 * t + 1]);
    }
  }
#pragma GCC unroll 16
  for (uint32_t i = 0; i < 2 * T; ++i) acc[i] = sum[i];
}

template <bool SCALED, bool SMALL>
void multiply_tile(const Panel& panel, uint64_t groups, const uint8_t* token, uint32_t tokens, RowsAhead& ahead,
                   zf* acc) {
  switch (tokens) {
    case 4:
      return multiply_tile<SCALED, SMALL, 4>(panel, groups, token, ahead, acc);
    case 5:
      return multiply_tile<SCALED, SMALL, 5>(panel, groups, token, ahead, acc);
    default:
      return multiply_tile<SCALED, SMALL, 6>(panel, groups, token, ahead, acc);
  }
}

/// Blocks of the panel at row `at`; without a second half it repeats the first.
void fill_blocks(const IntegerJob& job, uint64_t at, Block* blocks) {
  fill_block(job, at, blocks[0]);
  fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[1]);
}

template <Weights W>
void multiply(const IntegerJob& job) {
  constexpr bool kScaled = W != Weights::Q8;
  const Planes& w = *job.weight;
  const uint64_t padded = (w.groups + 15) / 16 * 16;
  Panel panel;
  panel.scales = reinterpret_cast<float*>(job.scratch);
  panel.codes = job.scratch + 4 * kPanelRows * padded;
  panel.stage = panel.codes + kPanelGroup * padded;
  Block blocks[2][2];
  fill_blocks(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kPanelRows, turn ^= 1) {
    const Block* block = blocks[turn];
    const bool more = at + kPanelRows < job.count, second = at + kBlockRows < job.count;
    RowsAhead ahead;
    if (more) {
      fill_blocks(job, at + kPanelRows, blocks[turn ^ 1]);
      const uint64_t row_bytes = W == Weights::Vbit ? w.cols / 2 : w.code_stride;
      ahead = RowsAhead(blocks[turn ^ 1], kPanelRows, row_bytes / 64, job.tile_count, w.groups);
    }
    fill_panel<W>(w, block, panel);
    const zf h0 = kScaled ? _mm512_setzero_ps() : _mm512_loadu_ps(block[0].row_scale);
    const zf h1 = kScaled ? _mm512_setzero_ps() : _mm512_loadu_ps(block[1].row_scale);
    for (uint32_t i = 0; i < job.tile_count; ++i) {
      const Tile& tile = job.tiles[i];
      ahead.begin_tile();
      zf acc[12];
      const uint8_t* token = job.activations + tile.first * job.token_bytes;
      multiply_tile<kScaled, kSmall<W>>(panel, w.groups, token, tile.tokens, ahead, acc);
      for (uint32_t t = 0; t < tile.tokens; ++t) {
        float* y = job.y + (tile.first + t) * job.y_stride + at;
        store_outputs(y, block[0].rows, kScaled ? acc[2 * t] : _mm512_mul_ps(acc[2 * t], h0));
        if (second) {
          store_outputs(y + kBlockRows, block[1].rows, kScaled ? acc[2 * t + 1] : _mm512_mul_ps(acc[2 * t + 1], h1));
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
