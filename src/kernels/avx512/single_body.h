#pragma once
// Matrix × one token. Lanes are rows where the floats are: a step takes 16 rows × 4 groups; the integer products of
// each row are reduced ACROSS rows, so that four vectors (one a group) of 16 dot products come out and no horizontal
// sum is ever needed. The chain of four fused multiply-adds a step is far from being the limit; loads that run ahead
// are: 16 streams defeat the hardware's prefetcher, so the next eight steps of each row are asked for in address order.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/scales.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr uint32_t kChunk = 8;  // steps: 1,024 columns

/// Four rows' 4 × 4 partial sums → 128-bit lane = group, dword = row. Small: all sums of pairs fit 16 bits.
template <bool SMALL>
CORTIQ_INLINE zi reduce_rows(zi a, zi b, zi c, zi d) {
  if constexpr (SMALL) {
    const zi one = _mm512_set1_epi16(1);
    const zi ab = _mm512_madd_epi16(_mm512_packs_epi32(a, b), one);
    const zi cd = _mm512_madd_epi16(_mm512_packs_epi32(c, d), one);
    return _mm512_madd_epi16(_mm512_packs_epi32(ab, cd), one);
  } else {
    const zi ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const zi cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  }
}

template <Weights W>
CORTIQ_INLINE const uint8_t* row_at(const Block& block, uint32_t row, uint64_t step) {
  if constexpr (W == Weights::Vbit) return block.codes[row] + 16 * block.bits[row] * step;
  return block.codes[row] + kStepBytes<W> * step;
}

/// Where the chunk after the current one begins.
struct Next {
  const Block* block;
  uint64_t step;
};

/// Asks for the next chunk: the lines of two rows while one step is computed, a quarter of them after every four rows.
/// With the scales in a plane of their own (and 8 lines a row) the scale pass has asked for the first four rows.
template <Weights W>
CORTIQ_INLINE void prefetch_quarter(const Next& next, uint32_t step, uint32_t quarter) {
  if constexpr (W == Weights::Q4Block || W == Weights::Q4tp) {
#pragma GCC unroll 3
    for (uint32_t i = 0; i < 3; ++i) {
      const uint32_t line = 32 + 12 * step + 3 * quarter + i;
      prefetch(row_at<W>(*next.block, line / 8, next.step) + 64 * (line % 8));
    }
    return;
  }
  const uint32_t row = 2 * step + quarter / 2;
  const uint8_t* at = row_at<W>(*next.block, row, next.step);
  if constexpr (W == Weights::Vbit) {
    for (uint32_t i = quarter % 2; i < 2u * next.block->bits[row]; i += 2) prefetch(at + 64 * i);
  } else {
    constexpr uint32_t kHalf = (kStepBytes<W> * kChunk + 127) / 128;
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kHalf; ++i) prefetch(at + 64 * (i + quarter % 2 * kHalf));
  }
}

/// Asks for the next block's scales, which would otherwise begin with a miss.
template <Weights W>
CORTIQ_INLINE void prefetch_scales(const Planes& w, const Block& after) {
  if constexpr (W == Weights::Q4Block || W == Weights::Q4tp || W == Weights::Vbit) {
    for (uint32_t r = 0; r < kBlockRows; ++r) {
      for (uint64_t at = 0; at < w.scale_stride + 63; at += 64) prefetch(after.scales[r] + at);
    }
  }
}

/// dot[g] = integer products of group g of the step, lanes = rows; scale[g], if the tiles hold the scales, likewise.
template <Weights W, bool FULL, bool AHEAD>
CORTIQ_INLINE void step16(const Block& block, uint64_t step, uint32_t columns, const uint8_t* token, zi* dot, zf* scale,
                          const Next& next) {
  const zi x_low = _mm512_load_si512(token), x_high = _mm512_load_si512(token + 64);
  const zi start = _mm512_load_si512(token + 128);
  zi reduced[4], halves[2];
#pragma GCC unroll 4
  for (uint32_t q = 0; q < 4; ++q) {
    if constexpr (AHEAD) prefetch_quarter<W>(next, step % kChunk, q);
    zi sum[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = 4 * q + i;
      const Step s = unpack<W, FULL>(row_at<W>(block, row, step), block.bits[row], columns);
      if constexpr (kTiled<W>) collect_scales<W>(s.raw, row, halves);
      const zi low = dot_add<kSmall<W>>(dot_begin<kSmall<W>>(start), s.low, x_low);
      sum[i] = dot_end<kSmall<W>>(dot_add<kSmall<W>>(low, s.high, x_high), start);
    }
    reduced[q] = reduce_rows<kSmall<W>>(sum[0], sum[1], sum[2], sum[3]);
  }
  transpose_lanes(reduced, dot);
  if constexpr (kTiled<W>) order_scales(halves, scale);
}

template <Weights W>
constexpr bool kScalePlane = !kTiled<W> && W != Weights::Q8;

/// Scales of groups [first, last), [group][16].
template <Weights W>
CORTIQ_INLINE void plane_scales(const Planes& w, const Block& block, const Ladders& ladders, uint64_t first,
                                uint64_t last, const Next& next, float* scales) {
  const Ahead ahead{W == Weights::Vbit ? nullptr : next.block->codes, kStepBytes<W> * next.step};
  if constexpr (W == Weights::Q4tp) {
    rung_scales(block, ladders, w.scale_stride, first, last, scales, 16, ahead);
  } else {
    half_scales(block, first, last, scales, 16, ahead);
  }
}

template <Weights W>
CORTIQ_INLINE zf accumulate_groups(const zi* dot, const zf* tile, const float* plane, const uint8_t* token,
                                   uint32_t groups, zf acc) {
#pragma GCC unroll 4
  for (uint32_t g = 0; g < 4; ++g) {
    if (g >= groups) break;
    const zf x_scale = broadcast_float(token + 192 + 4 * g);
    if constexpr (W == Weights::Q8) {
      acc = accumulate(dot[g], x_scale, acc);
    } else {
      const zf w_scale = kTiled<W> ? tile[g] : _mm512_load_ps(plane + 16 * g);
      acc = accumulate(dot[g], _mm512_mul_ps(w_scale, x_scale), acc);
    }
  }
  return acc;
}

template <Weights W>
zf multiply_block(const Planes& w, const Block& block, const Block& after, const uint8_t* token, float* scales) {
  const uint64_t full = w.cols / 128;
  const uint32_t rest = static_cast<uint32_t>(w.cols % 128);
  Ladders ladders;
  prefetch_scales<W>(w, after);
  if constexpr (W == Weights::Q4tp) make_ladders(block, ladders);
  zf acc = _mm512_setzero_ps(), tile[4];
  zi dot[4];
  uint64_t step = 0;
  do {
    const bool last = step + kChunk >= full;
    const Next next = last ? Next{&after, 0} : Next{&block, step + kChunk};
    if constexpr (kScalePlane<W>) {
      plane_scales<W>(w, block, ladders, 4 * step, last ? w.groups : 4 * (step + kChunk), next, scales);
    }
    const uint64_t end = last ? full : step + kChunk;
    for (; step < end; ++step, token += kSingleStepBytes) {
      step16<W, true, true>(block, step, 128, token, dot, tile, next);
      acc = accumulate_groups<W>(dot, tile, scales + 64 * step, token, 4, acc);
    }
  } while (step < full);
  if (rest != 0) {
    step16<W, false, false>(block, step, rest, token, dot, tile, {});
    acc = accumulate_groups<W>(dot, tile, scales + 64 * step, token, (rest + 31) / 32, acc);
  }
  if constexpr (W == Weights::Q8) acc = _mm512_mul_ps(acc, _mm512_loadu_ps(block.row_scale));
  return acc;
}

template <Weights W>
void multiply(const IntegerJob& job) noexcept {
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    const Block& block = blocks[turn];
    // Behind the last block there is nothing to ask for; asking for its own first rows again is harmless.
    fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[turn ^ 1]);
    store_outputs(job.y + at, block.rows, multiply_block<W>(w, block, blocks[turn ^ 1], job.activations, scales));
  }
}

}  // namespace

void single(const IntegerJob& job) noexcept {
  switch (job.weight->weights) {
    case Weights::Q8:
      return multiply<Weights::Q8>(job);
    case Weights::Q4Block:
      return multiply<Weights::Q4Block>(job);
    case Weights::Q4Tiled:
      return multiply<Weights::Q4Tiled>(job);
    case Weights::Q4tp:
      return multiply<Weights::Q4tp>(job);
    case Weights::Vbit:
      return multiply<Weights::Vbit>(job);
    case Weights::Q1:
      return;  // few() does it: its quads come cheaper than bytes in row order
    case Weights::Q1t:
      return ternary(job);
  }
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
