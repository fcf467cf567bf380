#pragma once
// q1t × one token. A code byte holds five digits to base 3; the codes are not brought into the order of the columns,
// the activations come in the order of the codes: plane i has for every code byte the activation of its digit i. A step
// takes 16 rows × 8 groups, a group's seven code bytes in a qword. The integer products of two groups share a dword all
// the way from the rows to the lanes.
#include "kernels/avx512/bytes.h"
#include "kernels/avx512/unpack.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr uint32_t kTile = 9, kStepGroups = 8, kTernaryStep = kTile * kStepGroups;

// Both but for the last tile, of which 64 bytes have only one.
constexpr Permutation kTileCodes = permutation([](uint32_t i) { return i < 56 ? i / 8 * kTile + 2 + i % 8 : 0; });
constexpr Permutation kTileHalves =
    permutation([](uint32_t i) { return i % 16 < 14 ? i % 16 / 2 * kTile + i % 2 : 0; });
constexpr ByteLookup kFourDigits = byte_lookup([](uint32_t i) {
  return ternary_code(i) | ternary_code(i / 3) << 2 | ternary_code(i / 9) << 4 | ternary_code(i / 27) << 6;
});

/// The unsigned codes of digit `i` of every byte.
CORTIQ_INLINE zi plane(zi bytes, zi four, uint32_t i) {
  if (i < 4) return _mm512_and_si512(_mm512_srli_epi16(four, 2 * i), _mm512_set1_epi8(3));
  const zi one = _mm512_set1_epi8(1), two = _mm512_set1_epi8(2);
  const zi code = _mm512_mask_mov_epi8(one, _mm512_cmpgt_epu8_mask(bytes, _mm512_set1_epi8(80)), two);
  return _mm512_maskz_mov_epi8(_mm512_cmple_epu8_mask(bytes, _mm512_set1_epi8(static_cast<char>(161))), code);
}

/// dot[j], halves[j]: integer products and scales of groups 2·j (low words) and 2·j + 1, lanes = rows.
template <bool FULL>
CORTIQ_INLINE void step16(const Block& block, uint64_t step, uint64_t groups, const uint8_t* token, const Block& next,
                          uint64_t next_step, zi* dot, zi* halves) {
  const zi start = _mm512_load_si512(token + 320), ones = _mm512_set1_epi16(1);
  zi words[4];
#pragma GCC unroll 4
  for (uint32_t q = 0; q < 4; ++q) {
    zi sum[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = 4 * q + i, last_word = 8 * q + 7;
      const uint8_t* at = block.codes[row] + kTernaryStep * step;
      const zi tiles = FULL ? load_bytes(at) : _mm512_maskz_loadu_epi8(first_bytes(kTile * groups), at);
      halves[i] = q == 0 ? permute(kTileHalves, tiles) : replace_lane(halves[i], q, kTileHalves, tiles);
      zi bytes = permute(kTileCodes, tiles);
      if constexpr (FULL) {
        bytes = _mm512_mask_loadu_epi8(bytes, 0x7Full << 56, at + 9);
        halves[i] = _mm512_mask_loadu_epi16(halves[i], 1u << last_word, at + 63 - 2 * last_word);
      }
      const zi four = look_up_byte(kFourDigits, bytes);
      sum[i] = dot_begin<true>(start);
#pragma GCC unroll 5
      for (uint32_t k = 0; k < 5; ++k) {
        sum[i] = dot_add<true>(sum[i], plane(bytes, four, k), _mm512_load_si512(token + 64 * k));
      }
      sum[i] = dot_end<true>(sum[i], start);
    }
    if constexpr (FULL) {  // a row's share of the next 1,024 columns
      const uint8_t* ahead = next.codes[4 * (step % 4) + q] + kTernaryStep * next_step;
#pragma GCC unroll 5
      for (uint32_t line = 0; line < 5; ++line) prefetch(ahead + 64 * line);
    }
    const zi ab = _mm512_madd_epi16(_mm512_packs_epi32(sum[0], sum[1]), ones);
    const zi cd = _mm512_madd_epi16(_mm512_packs_epi32(sum[2], sum[3]), ones);
    words[q] = _mm512_packs_epi32(ab, cd);  // 128-bit lane = two groups, dword = row
  }
  transpose_lanes(words, dot);
  const zi a = _mm512_unpacklo_epi32(halves[0], halves[1]), b = _mm512_unpackhi_epi32(halves[0], halves[1]);
  const zi c = _mm512_unpacklo_epi32(halves[2], halves[3]), d = _mm512_unpackhi_epi32(halves[2], halves[3]);
  halves[0] = _mm512_unpacklo_epi64(a, c);
  halves[1] = _mm512_unpackhi_epi64(a, c);
  halves[2] = _mm512_unpacklo_epi64(b, d);
  halves[3] = _mm512_unpackhi_epi64(b, d);
}

CORTIQ_INLINE zf accumulate_groups(const zi* dot, const zi* halves, const uint8_t* token, uint64_t groups, zf acc) {
#pragma GCC unroll 8
  for (uint32_t g = 0; g < kStepGroups; ++g) {
    if (g >= groups) break;
    const zi products = _mm512_srai_epi32(g % 2 ? dot[g / 2] : _mm512_slli_epi32(dot[g / 2], 16), 16);
    const zi half = g % 2 ? _mm512_srli_epi32(halves[g / 2], 16) : halves[g / 2];
    const zf scale = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(half));
    acc = accumulate(products, _mm512_mul_ps(scale, broadcast_float(token + 384 + 4 * g)), acc);
  }
  return acc;
}

zf multiply_block(const Planes& w, const Block& block, const Block& after, const uint8_t* token) {
  const uint64_t full = w.groups / kStepGroups, rest = w.groups % kStepGroups;
  zf acc = _mm512_setzero_ps();
  zi dot[4], halves[4];
  for (uint64_t step = 0; step < full; ++step, token += kTernaryStepBytes) {
    const uint64_t chunk = step / 4 * 4 + 4;
    const bool last = chunk >= full;
    step16<true>(block, step, kStepGroups, token, last ? after : block, last ? 0 : chunk, dot, halves);
    acc = accumulate_groups(dot, halves, token, kStepGroups, acc);
  }
  if (rest != 0) {
    step16<false>(block, full, rest, token, block, 0, dot, halves);
    acc = accumulate_groups(dot, halves, token, rest, acc);
  }
  return acc;
}

}  // namespace

void ternary(const IntegerJob& job) noexcept {
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[turn ^ 1]);
    const zf y = multiply_block(*job.weight, blocks[turn], blocks[turn ^ 1], job.activations);
    store_outputs(job.y + at, blocks[turn].rows, y);
  }
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
