#pragma once
// From stored codes to unsigned bytes, one row and one step (four groups, 128 columns) at a time. q1 has its own way:
// signs.h.
#include "kernels/avx512/bytes.h"

namespace cortiq::kernels {
namespace {

/// Bytes of a step in the plane of codes; for Vbit they depend on the row: 16 times its bits.
template <Weights W>
inline constexpr uint32_t kStepBytes = W == Weights::Q8        ? 128
                                       : W == Weights::Q4Tiled ? 72
                                       : W == Weights::Q1t     ? 36
                                                               : 64;
/// Scales stand beside the codes, in tiles.
template <Weights W>
inline constexpr bool kTiled = W == Weights::Q4Tiled || W == Weights::Q1t;
template <Weights W>
inline constexpr bool kNibbles = W == Weights::Q4Tiled || W == Weights::Q4Block || W == Weights::Q4tp;
/// Sums of eight products of an unsigned code and an activation fit 16 bits.
template <Weights W>
inline constexpr bool kSmall = W != Weights::Q8&& W != Weights::Vbit;

/// 32 columns' activations are held as two vectors of 16: `low` and `high` are the first and second halves of the four
/// groups, except for nibbles, where they are the even and the odd columns. 128-bit lane = group.
struct Step {
  zi low, high;
  zi raw;  ///< kTiled: what was loaded, with the scales in it
};

inline constexpr WordPermutation kTile18 = word_permutation([](uint32_t i) { return (i / 8 * 9 + 1 + i % 8) & 31; });
// Ternary: the seven code bytes of tile L become words 8L … 8L+6.
inline constexpr Permutation kTile9Words =
    permutation([](uint32_t i) { return i % 16 < 14 ? i / 16 * 9 + 2 + i % 16 / 2 : 0; });
inline constexpr uint64_t kTile9Mask = 0x1555155515551555;
// Columns 8h … 8h+7 of a group begin in code byte (8h)/5 and need at most four words from there.
constexpr uint32_t ternary_word(uint32_t h) { return 8 * h / 5; }
template <uint32_t half>
inline constexpr ByteTable kTernaryWords = byte_table([](uint32_t i) {
  return 2 * ternary_word(2 * half + i % 16 / 8) + i % 8;
});
template <uint32_t half>
inline constexpr Multishift kTernaryShift = multishift_by([](uint32_t i) {
  const uint32_t h = 2 * half + i % 16 / 8, column = 8 * h + i % 8;
  return 16 * (column / 5 - ternary_word(h)) + 2 * (column % 5);
});

// vbit: eight codes are `bits` bytes, most significant first; as a big-endian number in a qword, code j begins at bit
// bits·(7−j).
struct VbitTable {
  Permutation bytes;
  Multishift shift;
};
constexpr VbitTable vbit_table(uint32_t bits) {
  return {permutation([bits](uint32_t i) { return i % 8 < bits ? i / 8 * bits + (bits - 1 - i % 8) : 0; }),
          multishift_by([bits](uint32_t i) { return bits * (7 - i % 8); })};
}
inline constexpr VbitTable kVbit[9] = {vbit_table(1), vbit_table(1), vbit_table(2), vbit_table(3), vbit_table(4),
                                       vbit_table(5), vbit_table(6), vbit_table(7), vbit_table(8)};

/// 64 codes of a vbit row, natural order, as u − L + 127.
CORTIQ_INLINE zi unpack_vbit(const uint8_t* at, uint32_t bits, __mmask64 have) {
  const zi bytes = permute(kVbit[bits].bytes, _mm512_maskz_loadu_epi8(have, at));
  zi v = multishift(kVbit[bits].shift, bytes);
  const uint32_t mask = (1u << bits) - 1, lift = 128 - (1u << (bits - 1));
  v = _mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(mask * 0x01010101u)));
  return _mm512_add_epi8(v, _mm512_set1_epi32(static_cast<int>(lift * 0x01010101u)));
}

// A digit's code is 1 for 0, 2 for 1, 0 for 2 (which stands for −1).
constexpr uint32_t ternary_code(uint32_t digit) { return (digit % 3 + 1) % 3; }
inline constexpr Lookup kLowDigits =
    lookup([](uint32_t i) { return ternary_code(i) | ternary_code(i / 3) << 2 | ternary_code(i / 9) << 4; });
inline constexpr Lookup kHighDigits = lookup([](uint32_t i) { return ternary_code(i) | ternary_code(i / 3) << 2; });

/// Base-3 bytes of four tiles as words of five 2-bit codes, the lowest digit's first.
CORTIQ_INLINE zi ternary_digits(zi raw) {
  const zi b = _mm512_maskz_mov_epi8(kTile9Mask, permute(kTile9Words, raw));
  const zi high = _mm512_mulhi_epu16(b, _mm512_set1_epi16(2428));  // b / 27
  const zi low = _mm512_sub_epi16(b, _mm512_mullo_epi16(high, _mm512_set1_epi16(27)));
  const zi low_codes = look_up(kLowDigits, kEvenBytes, low);
  const zi high_codes = look_up(kHighDigits, kEvenBytes, high);
  return _mm512_or_si512(low_codes, _mm512_slli_epi16(high_codes, 6));
}
template <uint32_t half>
CORTIQ_INLINE zi ternary_codes(zi digits) {
  const zi v = _mm512_shuffle_epi8(digits, load_table(kTernaryWords<half>));
  return _mm512_and_si512(multishift(kTernaryShift<half>, v), _mm512_set1_epi8(3));
}

/// One row's step at `at`. FULL: all four groups are there; otherwise `columns` of them (Q8: any number).
template <Weights W, bool FULL>
CORTIQ_INLINE Step unpack(const uint8_t* at, uint32_t bits, uint32_t columns) {
  Step s{};
  if constexpr (W == Weights::Q8 || W == Weights::Vbit) {
    zi z0, z1;
    if constexpr (W == Weights::Q8) {
      const zi flip = _mm512_set1_epi8(static_cast<char>(0x80));
      z0 = FULL ? load_bytes(at) : _mm512_maskz_loadu_epi8(first_bytes(columns), at);
      z1 = FULL ? load_bytes(at + 64) : _mm512_maskz_loadu_epi8(first_bytes(columns > 64 ? columns - 64 : 0), at + 64);
      z0 = _mm512_xor_si512(z0, flip);
      z1 = _mm512_xor_si512(z1, flip);
    } else {
      const uint32_t bytes = FULL ? 16 * bits : columns / 8 * bits;
      z0 = unpack_vbit(at, bits, first_bytes(bytes < 8 * bits ? bytes : 8 * bits));
      z1 = unpack_vbit(at + 8 * bits, bits, first_bytes(bytes > 8 * bits ? bytes - 8 * bits : 0));
    }
    s.low = _mm512_shuffle_i32x4(z0, z1, 0x88);
    s.high = _mm512_shuffle_i32x4(z0, z1, 0xDD);
  } else if constexpr (kNibbles<W>) {
    const zi nibble = _mm512_set1_epi8(15);
    const uint32_t bytes = columns / 32 * (kStepBytes<W> / 4);
    s.raw = FULL ? load_bytes(at) : _mm512_maskz_loadu_epi8(first_bytes(bytes), at);
    zi v = s.raw;
    if constexpr (W == Weights::Q4Tiled) {
      // 64 bytes hold three tiles and the scale of the fourth; only the full step has a fourth to complete.
      v = permute(kTile18, v);
      if constexpr (FULL) {
        v = _mm512_mask_broadcast_i32x4(v, 0xF000, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 56)));
      }
    }
    s.low = _mm512_and_si512(v, nibble);
    s.high = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
  } else {
    s.raw = _mm512_maskz_loadu_epi8(FULL ? 0xFFFFFFFFF : first_bytes(columns / 32 * 9), at);
    const zi digits = ternary_digits(s.raw);
    s.low = ternary_codes<0>(digits);
    s.high = ternary_codes<1>(digits);
  }
  return s;
}

// The four halves of a step's tiles, repeated in every qword. In tiles of 18 bytes they are whole words.
inline constexpr WordPermutation kTile18Scales = word_permutation([](uint32_t i) { return i % 4 * 9; });
inline constexpr Permutation kTile9Scales = permutation([](uint32_t i) { return i % 8 / 2 * 9 + i % 2; });

/// Puts the four scales of row j into qword j % 8 of s[j / 8].
template <Weights W>
CORTIQ_INLINE void collect_scales(zi raw, uint32_t j, zi* s) {
  const auto put = [&](const auto& table) __attribute__((always_inline)) {
    s[j / 8] = j % 8 == 0 ? permute(table, raw) : replace_qword(s[j / 8], j % 8, table, raw);
  };
  if constexpr (W == Weights::Q4Tiled) {
    put(kTile18Scales);
  } else {
    put(kTile9Scales);
  }
}

template <uint32_t half>
constexpr WordTable scale_order() {
  return word_table([](uint32_t i) {
    const uint32_t row = i % 16, group = 2 * half + i / 16;
    return row / 8 * 32 + row % 8 * 4 + group;
  });
}
inline constexpr WordTable kScaleOrder[2] = {scale_order<0>(), scale_order<1>()};

/// From collected halves to four vectors: scale[g] = group g of the 16 rows.
CORTIQ_INLINE void order_scales(const zi* s, zf* scale) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    const zi t = _mm512_permutex2var_epi16(s[0], _mm512_load_si512(kScaleOrder[h].at), s[1]);
    scale[2 * h] = _mm512_cvtph_ps(_mm512_castsi512_si256(t));
    scale[2 * h + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(t, 1));
  }
}

}  // namespace
}  // namespace cortiq::kernels
