#pragma once
// Matrix × 2 … 8 tokens: the quads of 16 rows are made in registers, used for every token, and never stored.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/quads.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

/// Asks for the same rows of the next block: half a row's share of 1,024 columns a group, or two rows' of 256.
template <Weights W>
CORTIQ_INLINE void prefetch_group(const Block& next, uint64_t g) {
  if constexpr (kStaged<W> || W == Weights::Q1) {
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      const uint64_t row = g % 8 * 2 + i;
      const uint32_t group_bytes = W == Weights::Vbit ? 4u * next.bits[row] : W == Weights::Q1 ? kSignTile : 9;
      const uint8_t* at = next.codes[row] + (g & ~7ull) * group_bytes;
      prefetch(at);
      for (uint32_t line = 64; line < 8 * group_bytes; line += 64) prefetch(at + line);
    }
  } else {
    constexpr uint32_t kHalf = (8 * kStepBytes<W> + 127) / 128;
    const uint8_t* at = next.codes[g % 32 / 2] + g / 32 * (8 * kStepBytes<W>)+g % 2 * (64 * kHalf);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kHalf; ++i) prefetch(at + 64 * i);
  }
}

template <Weights W, uint32_t T>
void multiply(const IntegerJob& job) {
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  uint8_t* stage = job.scratch + 64 * ((w.groups + 15) / 16 * 16);
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    const Block& block = blocks[turn];
    fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[turn ^ 1]);
    if constexpr (!kTiles<W>) group_scales(w, block, scales, 16);
    zf acc[T];
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) acc[t] = _mm512_setzero_ps();
    for_groups<W>(
        w, block, stage, scales, 16, [&](uint64_t g, const zi* quad) __attribute__((always_inline)) {
          prefetch_group<W>(blocks[turn ^ 1], g);
          // Scales that lie among the codes are collected while these are in the cache.
          if constexpr (kTiles<W>) {
            if (g % 16 == 0) tile_scales<W>(block, g, w.groups - g < 16 ? w.groups : g + 16, scales, 16);
          }
          const uint8_t* token = job.activations + 40 * T * g;
          const zf scale = W == Weights::Q8 ? _mm512_setzero_ps() : _mm512_load_ps(scales + 16 * g);
          const auto at_token = [&](uint32_t k, uint32_t t) __attribute__((always_inline)) {
            return token + 4 * (k * T + t);
          };
          const zi zero = _mm512_setzero_si512();
          zi dot[T], other = dot_begin<kSmall<W>>(zero);  // a single token's second chain keeps both ports busy
#pragma GCC unroll 8
          for (uint32_t t = 0; t < T; ++t) dot[t] = dot_begin<kSmall<W>>(broadcast(at_token(8, t)));
#pragma GCC unroll 8
          for (uint32_t k = 0; k < 8; ++k) {
#pragma GCC unroll 8
            for (uint32_t t = 0; t < T; ++t) {
              zi& sum = T == 1 && k % 2 ? other : dot[t];
              sum = dot_add<kSmall<W>>(sum, quad[k], broadcast(at_token(k, t)));
            }
          }
#pragma GCC unroll 8
          for (uint32_t t = 0; t < T; ++t) {
            dot[t] = dot_end<kSmall<W>>(dot[t], broadcast(at_token(8, t)));
            if constexpr (T == 1) dot[t] = _mm512_add_epi32(dot[t], dot_end<kSmall<W>>(other, zero));
            const zf x_scale = broadcast_float(at_token(9, t));
            acc[t] = accumulate(dot[t], W == Weights::Q8 ? x_scale : _mm512_mul_ps(scale, x_scale), acc[t]);
          }
        });
    const zf row_scale = W == Weights::Q8 ? _mm512_loadu_ps(block.row_scale) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) {
      if constexpr (W == Weights::Q8) acc[t] = _mm512_mul_ps(acc[t], row_scale);
      store_outputs(job.y + t * job.y_stride + at, block.rows, acc[t]);
    }
  }
}

template <Weights W>
void multiply(const IntegerJob& job) {
  switch (job.tiles[0].tokens) {
    case 1:
      if constexpr (W == Weights::Q1) return multiply<W, 1>(job);
      [[fallthrough]];
    case 2:
      return multiply<W, 2>(job);
    case 3:
      return multiply<W, 3>(job);
    case 4:
      return multiply<W, 4>(job);
    case 5:
      return multiply<W, 5>(job);
    case 6:
      return multiply<W, 6>(job);
    case 7:
      return multiply<W, 7>(job);
    default:
      return multiply<W, 8>(job);
  }
}

}  // namespace

void few(const IntegerJob& job) noexcept {
  for_weights(job.weight->weights, [&]<Weights W>() { multiply<W>(job); });
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
