#pragma once
// Products and moves of bytes: single instructions with VNNI and VBMI, a few without. The rest of the kernels is
// written over these.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vectors.h"

namespace cortiq::kernels {
namespace {

inline constexpr __mmask64 kEvenBytes = 0x5555555555555555;

// Dot products of 4 unsigned with 4 signed bytes in every dword, eight at most, from `start` on:
//   sum = dot_begin<SMALL>(start); sum = dot_add<SMALL>(sum, u, s); …; sum = dot_end<SMALL>(sum, start)
// SMALL: u ≤ 15, so that eight sums of two products fit 16 bits.
//
// permute: byte i of the result is byte f(i) of v, f given at compile time; replace_…: the same for one qword or
// 128-bit lane of `into`. A word permutation moves whole words, word i of the result is word f(i). multishift: byte i
// of the result has the bits of its qword of v from bit f(i) on; beyond bit 63 they are undefined. look_up: byte i of
// the result is f(index byte i), for indices below 32; zero where `have` is not set. look_up_byte: the same for any
// index, everywhere.

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)

template <bool SMALL>
CORTIQ_INLINE zi dot_begin(zi start) {
  return start;
}
template <bool SMALL>
CORTIQ_INLINE zi dot_add(zi sum, zi u, zi s) {
  return _mm512_dpbusd_epi32(sum, u, s);
}
template <bool SMALL>
CORTIQ_INLINE zi dot_end(zi sum, zi) {
  return sum;
}

using Permutation = ByteTable;
template <class F>
constexpr Permutation permutation(F f) {
  return byte_table(f);
}
template <class F>
constexpr Permutation word_permutation(F f) {
  return byte_table([f](uint32_t i) { return 2 * f(i / 2) + i % 2; });
}
using WordPermutation = Permutation;  // vpermw would be two operations where vpermb is one
CORTIQ_INLINE zi permute(const Permutation& table, zi v) { return _mm512_permutexvar_epi8(load_table(table), v); }
CORTIQ_INLINE zi replace_qword(zi into, uint32_t qword, const Permutation& table, zi v) {
  return _mm512_mask_permutexvar_epi8(into, 0xFFull << 8 * qword, load_table(table), v);
}

CORTIQ_INLINE zi replace_lane(zi into, uint32_t lane, const Permutation& table, zi v) {
  return _mm512_mask_permutexvar_epi8(into, 0xFFFFull << 16 * lane, load_table(table), v);
}

using Multishift = ByteTable;
template <class F>
constexpr Multishift multishift_by(F f) {
  return byte_table(f);
}
CORTIQ_INLINE zi multishift(const Multishift& table, zi v) {
  return _mm512_multishift_epi64_epi8(load_table(table), v);
}

using Lookup = ByteTable;
template <class F>
constexpr Lookup lookup(F f) {
  return byte_table([f](uint32_t i) { return i < 32 ? f(i) : 0; });
}
CORTIQ_INLINE zi look_up(const Lookup& table, __mmask64 have, zi index) {
  return _mm512_maskz_permutexvar_epi8(have, index, load_table(table));
}

struct ByteLookup {
  ByteTable quarter[4];
};
template <class F>
constexpr ByteLookup byte_lookup(F f) {
  ByteLookup table{};
  for (uint32_t q = 0; q < 4; ++q) table.quarter[q] = byte_table([f, q](uint32_t i) { return f(64 * q + i); });
  return table;
}
CORTIQ_INLINE zi look_up_byte(const ByteLookup& table, zi index) {
  const __mmask64 bit7 = _mm512_movepi8_mask(index), bit6 = _mm512_movepi8_mask(_mm512_add_epi8(index, index));
  const auto half = [&](const ByteTable& low, const ByteTable& high) __attribute__((always_inline)) {
    return _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(index, load_table(low)), bit6, index, load_table(high));
  };
  return _mm512_mask_mov_epi8(half(table.quarter[0], table.quarter[1]), bit7, half(table.quarter[2], table.quarter[3]));
}

#else

// vpmaddubsw adds two products in 16 bits with saturation: exact for small codes. Others are multiplied as 16-bit
// integers, the even and the odd bytes for themselves.
template <bool SMALL>
CORTIQ_INLINE zi dot_begin(zi start) {
  return SMALL ? _mm512_setzero_si512() : start;
}
template <bool SMALL>
CORTIQ_INLINE zi dot_add(zi sum, zi u, zi s) {
  if constexpr (SMALL) return _mm512_add_epi16(sum, _mm512_maddubs_epi16(u, s));
  const zi even =
      _mm512_madd_epi16(_mm512_maskz_mov_epi8(kEvenBytes, u), _mm512_srai_epi16(_mm512_slli_epi16(s, 8), 8));
  const zi odd = _mm512_madd_epi16(_mm512_srli_epi16(u, 8), _mm512_srai_epi16(s, 8));
  return _mm512_add_epi32(sum, _mm512_add_epi32(even, odd));
}
template <bool SMALL>
CORTIQ_INLINE zi dot_end(zi sum, zi start) {
  return SMALL ? _mm512_add_epi32(start, _mm512_madd_epi16(sum, _mm512_set1_epi16(1))) : sum;
}

// Two words for every word of the result: one brings its lower byte, the other its upper one.
struct Permutation {
  WordTable even, even_shift, odd, odd_shift;
};
template <class F>
constexpr Permutation permutation(F f) {
  return {word_table([f](uint32_t i) { return f(2 * i) / 2; }),
          word_table([f](uint32_t i) { return f(2 * i) % 2 * 8; }),
          word_table([f](uint32_t i) { return f(2 * i + 1) / 2; }),
          word_table([f](uint32_t i) { return 8 - f(2 * i + 1) % 2 * 8; })};
}
CORTIQ_INLINE zi permute(const Permutation& table, zi v) {
  const zi even = _mm512_permutexvar_epi16(load_table(table.even), v);
  const zi odd = _mm512_permutexvar_epi16(load_table(table.odd), v);
  return _mm512_mask_mov_epi8(_mm512_sllv_epi16(odd, load_table(table.odd_shift)), kEvenBytes,
                              _mm512_srlv_epi16(even, load_table(table.even_shift)));
}
CORTIQ_INLINE zi replace_qword(zi into, uint32_t qword, const Permutation& table, zi v) {
  return _mm512_mask_mov_epi64(into, static_cast<__mmask8>(1u << qword), permute(table, v));
}

CORTIQ_INLINE zi replace_lane(zi into, uint32_t lane, const Permutation& table, zi v) {
  return _mm512_mask_mov_epi32(into, static_cast<__mmask16>(0xFu << 4 * lane), permute(table, v));
}

using WordPermutation = WordTable;
template <class F>
constexpr WordPermutation word_permutation(F f) {
  return word_table(f);
}
CORTIQ_INLINE zi permute(const WordPermutation& table, zi v) { return _mm512_permutexvar_epi16(load_table(table), v); }
CORTIQ_INLINE zi replace_qword(zi into, uint32_t qword, const WordPermutation& table, zi v) {
  return _mm512_mask_permutexvar_epi16(into, 0xFu << 4 * qword, load_table(table), v);
}

// Likewise; a word holds the byte where the bits begin and the one after it.
struct Multishift {
  ByteTable even, odd;
  WordTable even_shift, odd_shift;
};
template <class F>
constexpr Multishift multishift_by(F f) {
  const auto word = [f](uint32_t odd) {
    return byte_table([f, odd](uint32_t i) {
      const uint32_t byte = i % 2 + f(i / 2 * 2 + odd) / 8;
      return i % 16 / 8 * 8 + (byte < 8 ? byte : 7);
    });
  };
  return {word(0), word(1), word_table([f](uint32_t i) { return f(2 * i) % 8; }),
          word_table([f](uint32_t i) { return 8 - f(2 * i + 1) % 8; })};
}
CORTIQ_INLINE zi multishift(const Multishift& table, zi v) {
  const zi even = _mm512_srlv_epi16(_mm512_shuffle_epi8(v, load_table(table.even)), load_table(table.even_shift));
  const zi odd = _mm512_sllv_epi16(_mm512_shuffle_epi8(v, load_table(table.odd)), load_table(table.odd_shift));
  return _mm512_mask_mov_epi8(odd, kEvenBytes, even);
}

struct Lookup {
  ByteTable low, high;
};
template <class F>
constexpr Lookup lookup(F f) {
  return {byte_table([f](uint32_t i) { return f(i % 16); }), byte_table([f](uint32_t i) { return f(16 + i % 16); })};
}
CORTIQ_INLINE zi look_up(const Lookup& table, __mmask64 have, zi index) {
  const __mmask64 high = _mm512_mask_test_epi8_mask(have, index, _mm512_set1_epi8(16));
  return _mm512_mask_shuffle_epi8(_mm512_maskz_shuffle_epi8(have, load_table(table.low), index), high,
                                  load_table(table.high), index);
}

struct ByteLookup {
  ByteTable part[16];
};
template <class F>
constexpr ByteLookup byte_lookup(F f) {
  ByteLookup table{};
  for (uint32_t p = 0; p < 16; ++p) table.part[p] = byte_table([f, p](uint32_t i) { return f(16 * p + i % 16); });
  return table;
}
CORTIQ_INLINE zi look_up_byte(const ByteLookup& table, zi index) {
  const zi low = _mm512_set1_epi8(15), in_part = _mm512_and_si512(index, low);
  const zi part = _mm512_and_si512(_mm512_srli_epi16(index, 4), low);
  zi v = _mm512_shuffle_epi8(load_table(table.part[0]), in_part);
#pragma GCC unroll 16
  for (uint32_t p = 1; p < 16; ++p) {
    const __mmask64 here = _mm512_cmpeq_epi8_mask(part, _mm512_set1_epi8(static_cast<char>(p)));
    v = _mm512_mask_shuffle_epi8(v, here, load_table(table.part[p]), in_part);
  }
  return v;
}

#endif

}  // namespace
}  // namespace cortiq::kernels
