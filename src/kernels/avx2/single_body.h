#pragma once
// Matrix × one token: eight rows as lanes, a pair of groups a step. As with AVX-512 the integer products are reduced
// across rows, so no horizontal sum is needed.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/scales.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr uint64_t kScalesAtOnce = 8;  // groups whose scales are gathered together

/// Eight rows' partial sums, eight each → one vector of eight sums.
CORTIQ_INLINE yi reduce_rows(const yi* d) {
  yi half[2];
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const yi* e = d + 4 * h;
    const yi a = _mm256_add_epi32(_mm256_unpacklo_epi32(e[0], e[1]), _mm256_unpackhi_epi32(e[0], e[1]));
    const yi b = _mm256_add_epi32(_mm256_unpacklo_epi32(e[2], e[3]), _mm256_unpackhi_epi32(e[2], e[3]));
    half[h] = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  }
  return _mm256_add_epi32(_mm256_permute2x128_si256(half[0], half[1], 0x20),
                          _mm256_permute2x128_si256(half[0], half[1], 0x31));
}

// Products of a row's bytes with the activations, four a dword. Q8 without VNNI: |w| unsigned times x with w's sign,
// exact also for −128.
#if defined(__AVXVNNI__)
CORTIQ_INLINE yi dot_unsigned(yi w, yi x) { return _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), w, x); }
CORTIQ_INLINE yi dot_signed(yi w, yi x) {  ///< from the start value on
  return dot_unsigned(_mm256_xor_si256(w, _mm256_set1_epi8(-128)), x);
}
CORTIQ_INLINE yi dot_nibbles(yi low, yi even, yi high, yi odd) {
  return _mm256_dpbusd_avx_epi32(dot_unsigned(low, even), high, odd);
}
#else
CORTIQ_INLINE yi dot_unsigned(yi w, yi x) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
}
CORTIQ_INLINE yi dot_signed(yi w, yi x) { return dot_unsigned(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }
CORTIQ_INLINE yi dot_nibbles(yi low, yi even, yi high, yi odd) {
  return _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(low, even), _mm256_maddubs_epi16(high, odd)),
                           _mm256_set1_epi16(1));
}
#endif

/// Rows [row, row + 8) of Q8. Of the eight rows `next`, which come then, the same places are asked for.
yf multiply_bytes(const Planes& w, const Block& block, uint32_t row, RowPointers next, const uint8_t* token) {
  yf acc = _mm256_setzero_ps();
  for (uint64_t g = 0; g < w.groups; ++g) {
    const uint8_t* x_at = token + g / 2 * kPairBytes;
    const yi x = load_bytes(x_at + g % 2 * 32);
    yi d[8];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kLanes; ++r) {
      const uint8_t* at = block.codes[row + r] + 32 * g;
      yi v;
      if (32 * g + 32 <= w.cols) {
        v = load_bytes(at);
        if (g % 2 == 0) prefetch(next[r] + 32 * g);
      } else {
        alignas(32) uint8_t rest[32] = {};
        __builtin_memcpy(rest, at, w.cols - 32 * g);
        v = load_bytes(rest);
      }
      d[r] = dot_signed(v, x);
    }
    yi dot = reduce_rows(d);
    if constexpr (kVnni) dot = _mm256_add_epi32(dot, broadcast(x_at + kStartAt + g % 2 * 4));
    acc = accumulate(dot, broadcast_float(x_at + kScaleAt + g % 2 * 4), acc);
  }
  return _mm256_mul_ps(acc, _mm256_loadu_ps(block.row_scale + row));
}

/// Four rows of a pair of groups, one a 128-bit lane, four partial sums that fit 16 bits → one sum a dword.
CORTIQ_INLINE yi reduce_small(const yi* d) {
  const yi one = _mm256_set1_epi16(1);
  const yi a = _mm256_madd_epi16(_mm256_packs_epi32(d[0], d[1]), one);
  const yi b = _mm256_madd_epi16(_mm256_packs_epi32(d[2], d[3]), one);
  return _mm256_madd_epi16(_mm256_packs_epi32(a, b), one);
}

template <Weights W>
yf multiply_nibbles(const Planes& w, const Block& block, uint32_t row, RowPointers next, const uint8_t* token,
                    float* scales) {
  const yi nibble = _mm256_set1_epi8(15);
  yf acc = _mm256_setzero_ps();
  for (uint64_t g = 0; g < w.groups; g += 2, token += kPairBytes) {
    const yi even = load_bytes(token), odd = load_bytes(token + 32);
    const bool both = g + 1 < w.groups;
    if (kTiles<W> && g % kScalesAtOnce == 0) {
      tile_scales(block, row, kLanes, kGroupBytes<W>, g, g + kScalesAtOnce < w.groups ? g + kScalesAtOnce : w.groups,
                  scales);
    }
    yi d[8];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kLanes; ++r) {
      const uint8_t* at = block.codes[row + r] + kGroupBytes<W> * g + (W == Weights::Q4Tiled ? 2 : 0);
      const yi v = join(load_half_vector(at), load_half_vector(both ? at + kGroupBytes<W> : at));
      prefetch(next[r] + kGroupBytes<W> * g);
      d[r] = dot_nibbles(_mm256_and_si256(v, nibble), even, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble), odd);
    }
    const yi a = reduce_small(d), b = reduce_small(d + 4);
    const yi first = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), broadcast(token + kStartAt));
    const yf x0 = broadcast_float(token + kScaleAt);
    acc = accumulate(first, _mm256_mul_ps(_mm256_load_ps(scales + kBlockRows * g + row), x0), acc);
    if (both) {
      const yi second = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x31), broadcast(token + kStartAt + 4));
      const yf x1 = broadcast_float(token + kScaleAt + 4);
      acc = accumulate(second, _mm256_mul_ps(_mm256_load_ps(scales + kBlockRows * (g + 1) + row), x1), acc);
    }
  }
  return acc;
}

/// Asks for the same stretch of groups of the eight rows that come then.
template <Weights W>
CORTIQ_INLINE void prefetch_rows(RowPointers next, const uint8_t* bits, uint64_t first, uint64_t last) {
  for (uint32_t r = 0; r < kLanes; ++r) {
    const uint64_t group_bytes = W == Weights::Vbit ? 4u * bits[r] : kGroupBytes<W>;
    for (uint64_t at = first * group_bytes; at < last * group_bytes; at += 64) prefetch(next[r] + at);
  }
}

/// Rows [row, row + 8) of q1: twice the sum of the activations whose bit is set, less the sum of all.
yf multiply_signs(const Planes& w, const Block& block, uint32_t row, RowPointers next, const uint8_t* token,
                  float* scales) {
  constexpr uint32_t kTile = kGroupBytes<Weights::Q1>;
  const yi spread =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const yi bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201)), one = _mm256_set1_epi8(1);
  yf acc = _mm256_setzero_ps();
  for (uint64_t g = 0; g < w.groups; ++g) {
    if (g % kStageGroups == 0) {
      const uint64_t last = w.groups - g < kStageGroups ? w.groups : g + kStageGroups;
      prefetch_rows<Weights::Q1>(next, nullptr, g, last);
      tile_scales(block, row, kLanes, kTile, g, last, scales);
    }
    const uint8_t* x_at = token + g / 2 * kPairBytes;
    const yi x = load_bytes(x_at + g % 2 * 32);
    yi d[8];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kLanes; ++r) {
      const yi bits = _mm256_shuffle_epi8(broadcast(block.codes[row + r] + kTile * g + 2), spread);
      d[r] = dot_unsigned(one, _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit), x));
    }
    const yi set = reduce_rows(d);
    const yi dot = _mm256_add_epi32(_mm256_add_epi32(set, set), broadcast(x_at + kStartAt + g % 2 * 4));
    const yf x_scale = broadcast_float(x_at + kScaleAt + g % 2 * 4);
    acc = accumulate(dot, _mm256_mul_ps(_mm256_load_ps(scales + kBlockRows * g + row), x_scale), acc);
  }
  return acc;
}

template <Weights W>
yf multiply_staged(const Planes& w, const Block& block, uint32_t row, RowPointers next, const uint8_t* token,
                   float* scales, int16_t* stage) {
  yf acc = _mm256_setzero_ps();
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    prefetch_rows<W>(next, block.bits + row, first, last);
    if constexpr (kTiles<W>) tile_scales(block, row, kLanes, kGroupBytes<W>, first, last, scales);
    fill_stage<W>(w, block, row, kLanes, first, last, stage);
    for (uint64_t g = first; g < last; ++g) {
      const uint8_t* x_at = token + g / 2 * kPairBytes;
      const yi x0 = load_bytes(x_at + g % 2 * 64), x1 = load_bytes(x_at + g % 2 * 64 + 32);
      yi d[8];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kLanes; ++r) {
        const int16_t* at = stage + kStageRow * r + 32 * (g - first);
        d[r] = dot_pairs(_mm256_madd_epi16(load_bytes(at), x0), load_bytes(at + 16), x1);
      }
      const yf x_scale = broadcast_float(x_at + kScaleAt + g % 2 * 4);
      acc = accumulate(reduce_rows(d), _mm256_mul_ps(_mm256_load_ps(scales + kBlockRows * g + row), x_scale), acc);
    }
  }
  return acc;
}

template <Weights W>
void multiply(const IntegerJob& job) {
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  int16_t* stage = reinterpret_cast<int16_t*>(scales + kBlockRows * w.groups);
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    const Block& block = blocks[turn];
    fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[turn ^ 1]);
    if constexpr (!kTiles<W>) group_scales(w, block, scales);
    for (uint32_t row = 0; row < block.rows; row += kLanes) {
      const RowPointers next = row + kLanes < block.rows ? block.codes + row + kLanes : blocks[turn ^ 1].codes;
      yf acc;
      if constexpr (W == Weights::Q8) {
        acc = multiply_bytes(w, block, row, next, job.activations);
      } else if constexpr (W == Weights::Q1) {
        acc = multiply_signs(w, block, row, next, job.activations, scales);
      } else if constexpr (kNibbles<W>) {
        acc = multiply_nibbles<W>(w, block, row, next, job.activations, scales);
      } else {
        acc = multiply_staged<W>(w, block, row, next, job.activations, scales, stage);
      }
      store_outputs(job.y + at + row, block.rows - row, acc);
    }
  }
}

}  // namespace

void single(const IntegerJob& job) noexcept {
  for_weights(job.weight->weights, [&]<Weights W>() { multiply<W>(job); });
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
