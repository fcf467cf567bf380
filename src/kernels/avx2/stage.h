#pragma once
// Codes of a row as signed 16-bit integers in their natural order: what vpmaddwd multiplies without any overflow.
#include "kernels/avx2/vectors.h"
#include "kernels/stage_body.h"

namespace cortiq::kernels {
namespace {

CORTIQ_INLINE void store_group(yi first, yi second, int16_t* out) {
  _mm256_storeu_si256(reinterpret_cast<yi*>(out), first);
  _mm256_storeu_si256(reinterpret_cast<yi*>(out + 16), second);
}

CORTIQ_INLINE void stage_nibbles(const uint8_t* at, int16_t* out) {
  const __m128i nibble = _mm_set1_epi8(15), middle = _mm_set1_epi8(8), v = load_half_vector(at);
  const __m128i even = _mm_and_si128(v, nibble), odd = _mm_and_si128(_mm_srli_epi16(v, 4), nibble);
  store_group(_mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_unpacklo_epi8(even, odd), middle)),
              _mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_unpackhi_epi8(even, odd), middle)), out);
}

CORTIQ_INLINE void stage_signs(const uint8_t* at, int16_t* out) {
  const yi bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
  const auto half = [&](const uint8_t* p) __attribute__((always_inline)) {
    const yi set =
        _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16(static_cast<int16_t>(load<uint16_t>(p))), bit), bit);
    return _mm256_sub_epi16(_mm256_set1_epi16(-1), _mm256_add_epi16(set, set));  // −1 − 2·(set ? −1 : 0)
  };
  store_group(half(at), half(at + 2), out);
}

// Writes up to six values beyond the group; the next group overwrites them.
CORTIQ_INLINE void stage_ternary(const uint8_t* at, int16_t* out) {
#pragma GCC unroll 7
  for (uint32_t j = 0; j < 7; ++j) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kTernary.at[at[j]]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 5 * j), _mm_cvtepi8_epi16(codes));
  }
}

// Codes of BITS bits, most significant bit first: of sixteen, code i lies in the two bytes at bit i·BITS, big end
// first, moved up to the word's end by a product and down to its place.
template <uint32_t BITS>
struct CodePlaces {
  alignas(32) uint8_t bytes[32];
  alignas(32) int16_t factor[16];
};
template <uint32_t BITS>
constexpr CodePlaces<BITS> code_places() {
  CodePlaces<BITS> places{};
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t byte = i * BITS / 8, last = 2 * BITS - 1;  // behind the last byte nothing of a code is left
    places.bytes[2 * i] = static_cast<uint8_t>(byte < last ? byte + 1 : last);
    places.bytes[2 * i + 1] = static_cast<uint8_t>(byte);
    places.factor[i] = static_cast<int16_t>(1u << (i * BITS % 8));
  }
  return places;
}
template <uint32_t BITS>
inline constexpr CodePlaces<BITS> kCodePlaces = code_places<BITS>();

template <uint32_t BITS>
CORTIQ_INLINE yi sixteen_codes(__m128i bytes) {
  const CodePlaces<BITS>& places = kCodePlaces<BITS>;
  const yi pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), load_bytes(places.bytes));
  const yi codes = _mm256_srli_epi16(_mm256_mullo_epi16(pairs, load_bytes(places.factor)), 16 - BITS);
  return _mm256_sub_epi16(codes, _mm256_set1_epi16((1 << (BITS - 1)) - 1));
}

template <uint32_t BITS>
CORTIQ_INLINE void stage_vbit_row(const uint8_t* at, uint64_t groups, int16_t* out) {
  const uint8_t* end = at + 4 * BITS * groups;
  for (uint64_t i = 0; i < 2 * groups; ++i, at += 2 * BITS) {
    __m128i bytes;
    if (end - at >= 16) {
      bytes = load_half_vector(at);
    } else {  // reading on could leave the file
      alignas(16) uint8_t last[16] = {};
      __builtin_memcpy(last, at, 2 * BITS);
      bytes = load_half_vector(last);
    }
    _mm256_storeu_si256(reinterpret_cast<yi*>(out + 16 * i), sixteen_codes<BITS>(bytes));
  }
}

CORTIQ_INLINE void stage_vbit(const uint8_t* at, uint32_t bits, uint64_t groups, int16_t* out) {
  for_bits(bits, [&]<uint32_t BITS>() { stage_vbit_row<BITS>(at, groups, out); });
}

/// Columns of Q8 rows; beyond the last one zeros.
CORTIQ_INLINE void stage_bytes(const uint8_t* at, uint64_t columns, int16_t* out) {
  uint64_t c = 0;
  for (; c + 16 <= columns; c += 16) {
    _mm256_storeu_si256(reinterpret_cast<yi*>(out + c), _mm256_cvtepi8_epi16(load_half_vector(at + c)));
  }
  for (; c < (columns + 31) / 32 * 32; ++c) out[c] = c < columns ? static_cast<int8_t>(at[c]) : int16_t{0};
}

/// Groups [first, last) of `rows` rows from `row` on, [row][kStageRow].
template <Weights W>
__attribute__((noinline)) void fill_stage(const Planes& w, const Block& block, uint32_t row, uint32_t rows,
                                          uint64_t first, uint64_t last, int16_t* out) {
  for (uint32_t r = row; r < row + rows; ++r, out += kStageRow) {
    const uint8_t* at = block.codes[r] + first * (W == Weights::Vbit ? 4u * block.bits[r] : kGroupBytes<W>);
    if constexpr (W == Weights::Vbit) {
      stage_vbit(at, block.bits[r], last - first, out);
    } else if constexpr (W == Weights::Q8) {
      stage_bytes(at, (32 * last < w.cols ? 32 * last : w.cols) - 32 * first, out);
    } else {
      for (uint64_t g = 0; g < last - first; ++g, at += kGroupBytes<W>) {
        if constexpr (W == Weights::Q1) stage_signs(at + 2, out + 32 * g);
        if constexpr (W == Weights::Q1t) stage_ternary(at + 2, out + 32 * g);
        if constexpr (kNibbles<W>) stage_nibbles(at + (W == Weights::Q4Tiled ? 2 : 0), out + 32 * g);
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::kernels
