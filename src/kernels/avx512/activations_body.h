#pragma once
// int8 activations (decisions 2 of docs/numerics.md) in the arrangements that the kernels read.
#include "kernels/avx512/bytes.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

constexpr int32_t offset_of(Flavour flavour) {
  return flavour == Flavour::Q8 ? 128 : flavour == Flavour::Q4 ? 8 : flavour == Flavour::Vbit ? 127 : 1;
}

// Quad j of q1 holds columns j, 8 + j, 16 + j, 24 + j: a word of signs shifted by j has their bits in its four bytes.
constexpr Permutation kSignColumns = permutation([](uint32_t i) { return i % 4 * 8 + i / 4 % 8; });

struct Group {
  __m256i q;
  float scale;
};

CORTIQ_INLINE Group quantise_group(const float* x) {
  const zf a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
  const zi magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  const uint32_t top = _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                                                _mm512_and_si512(_mm512_castps_si512(b), magnitude)));
  float m;
  __builtin_memcpy(&m, &top, 4);
  if (top >= 0x7F800000) return {_mm256_setzero_si256(), __builtin_nanf("")};
  if (m < 0x1p-100f) return {_mm256_setzero_si256(), 0};
  const zf inverse = _mm512_set1_ps(127.0f / m);
  // |x|·inverse rounds to at most 127, so the saturation of the narrowing is the clamp's upper half and −128 never
  // comes.
  const __m128i low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(a, inverse)));
  const __m128i high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(b, inverse)));
  return {_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), m / 127.0f};
}

// One step of a single token; `groups` of its four exist.
void quantise_step(Flavour flavour, const float* x, uint64_t groups, uint8_t* out) {
  alignas(64) int8_t low[64] = {}, high[64] = {};
  float scale[4] = {};
  const __m256i split = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12,
                                         14, 1, 3, 5, 7, 9, 11, 13, 15);
  for (uint64_t g = 0; g < groups; ++g) {
    Group group = quantise_group(x + 32 * g);
    if (flavour == Flavour::Q4) {
      group.q = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(group.q, split), 0xD8);  // evens, then odds
    }
    _mm_store_si128(reinterpret_cast<__m128i*>(low + 16 * g), _mm256_castsi256_si128(group.q));
    _mm_store_si128(reinterpret_cast<__m128i*>(high + 16 * g), _mm256_extracti128_si256(group.q, 1));
    scale[g] = group.scale;
  }
  const zi one = _mm512_set1_epi8(1), l = _mm512_load_si512(low), h = _mm512_load_si512(high);
  const zi zero = _mm512_setzero_si512();
  const zi sum = dot_end<true>(dot_add<true>(dot_add<true>(dot_begin<true>(zero), one, l), one, h), zero);
  _mm512_store_si512(out, l);
  _mm512_store_si512(out + 64, h);
  _mm512_store_si512(out + 128, _mm512_mullo_epi32(sum, _mm512_set1_epi32(-offset_of(flavour))));
  __builtin_memcpy(out + 192, scale, sizeof scale);
}

// Byte s of a group's plane i belongs to column 5·s + i; there are 32.
constexpr Permutation kTernaryPlanes = permutation([](uint32_t i) {
  const uint32_t column = 5 * (i % 8) + i / 8;
  return i < 40 && column < 32 ? column : 32;
});

// One step of eight groups of q1t's single token.
void quantise_ternary(const float* x, uint64_t groups, uint8_t* out) {
  for (uint64_t g = 0; g < 8; ++g) {
    const Group group = g < groups ? quantise_group(x + 32 * g) : Group{_mm256_setzero_si256(), 0};
    alignas(64) uint64_t planes[8];
    _mm512_store_si512(planes, permute(kTernaryPlanes, _mm512_zextsi256_si512(group.q)));
    for (uint64_t i = 0; i < 5; ++i) __builtin_memcpy(out + 64 * i + 8 * g, &planes[i], 8);
    __builtin_memcpy(out + 384 + 4 * g, &group.scale, 4);
  }
  const zi zero = _mm512_setzero_si512();
  zi sum = dot_begin<true>(zero);
  for (uint64_t i = 0; i < 5; ++i) sum = dot_add<true>(sum, _mm512_set1_epi8(1), _mm512_load_si512(out + 64 * i));
  _mm512_store_si512(out + 320, _mm512_sub_epi32(zero, dot_end<true>(sum, zero)));
}

}  // namespace

void quantise(const QuantiseJob& job) noexcept {
  if (job.tokens == 1 && job.flavour == Flavour::Q1t) {
    for (uint64_t g = job.first_group; g < job.last_group; g += 8) {
      const uint64_t groups = job.last_group - g < 8 ? job.last_group - g : 8;
      quantise_ternary(job.x + 32 * (g - job.first_group), groups, job.out + g / 8 * kTernaryStepBytes);
    }
    return;
  }
  if (job.tokens == 1 && job.flavour != Flavour::Q1) {
    for (uint64_t g = job.first_group; g < job.last_group; g += 4) {
      const uint64_t groups = job.last_group - g < 4 ? job.last_group - g : 4;
      quantise_step(job.flavour, job.x + 32 * (g - job.first_group), groups, job.out + g / 4 * kSingleStepBytes);
    }
    return;
  }
  const uint64_t tokens = job.tokens;
  // Per eight columns the four even ones, then the four odd ones: a byte of nibbles holds one of each.
  const __m256i pairs = _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 0, 2, 4, 6, 1, 3, 5, 7,
                                         8, 10, 12, 14, 9, 11, 13, 15);
  for (uint64_t g = job.first_group; g < job.last_group; ++g) {
    uint8_t* out = job.out + 40 * tokens * g;
    for (uint64_t t = 0; t < tokens; ++t) {
      Group group = quantise_group(job.x + t * job.stride + 32 * (g - job.first_group));
      if (job.flavour == Flavour::Q4) group.q = _mm256_shuffle_epi8(group.q, pairs);
      if (job.flavour == Flavour::Q1) {
        group.q = _mm512_castsi512_si256(permute(kSignColumns, _mm512_castsi256_si512(group.q)));
      }
      const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), group.q), _mm256_set1_epi16(1));
      const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
      const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
      const int32_t start = -offset_of(job.flavour) * (_mm_cvtsi128_si32(two) + _mm_extract_epi32(two, 1));
      alignas(32) uint8_t quads[32];
      _mm256_store_si256(reinterpret_cast<__m256i*>(quads), group.q);
      for (uint64_t k = 0; k < 8; ++k) __builtin_memcpy(out + 4 * (k * tokens + t), quads + 4 * k, 4);
      __builtin_memcpy(out + 4 * (8 * tokens + t), &start, 4);
      __builtin_memcpy(out + 4 * (9 * tokens + t), &group.scale, 4);
    }
  }
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
