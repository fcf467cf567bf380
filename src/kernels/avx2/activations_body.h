#pragma once
// int8 activations (decisions 2 of docs/numerics.md) in the arrangements that the AVX2 kernels read.
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/vectors.h"

namespace cortiq::kernels::CORTIQ_LEVEL {
namespace {

// 32 rounded activations as 16-bit integers.
struct Group {
  yi first, second;
  float scale;
};

CORTIQ_INLINE uint32_t max_lane(yi v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

CORTIQ_INLINE Group quantise_group(const float* x) {
  const yi magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  yf v[4];
  yi most = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_loadu_ps(x + 8 * i);
    most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
  }
  const uint32_t top = max_lane(most);
  float m;
  __builtin_memcpy(&m, &top, 4);
  const yi zero = _mm256_setzero_si256();
  if (top >= 0x7F800000) return {zero, zero, __builtin_nanf("")};
  if (m < 0x1p-100f) return {zero, zero, 0};
  const yf inverse = _mm256_set1_ps(127.0f / m);
  const auto rounded = [&](int i) __attribute__((always_inline)) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
  };
  // |x|·inverse rounds to at most 127: there is nothing to clamp.
  return {_mm256_permute4x64_epi64(_mm256_packs_epi32(rounded(0), rounded(1)), 0xD8),
          _mm256_permute4x64_epi64(_mm256_packs_epi32(rounded(2), rounded(3)), 0xD8), m / 127.0f};
}

CORTIQ_INLINE int32_t sum(const Group& group) {
  const yi pairs = _mm256_madd_epi16(_mm256_add_epi16(group.first, group.second), _mm256_set1_epi16(1));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}

CORTIQ_INLINE yi bytes_of(const Group& group) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi16(group.first, group.second), 0xD8);
}

void store_single(Flavour flavour, const Group& group, uint64_t half, uint8_t* out) {
  const auto put = [](uint8_t* at, yi v) { _mm256_storeu_si256(reinterpret_cast<yi*>(at), v); };
  if (flavour == Flavour::Q8 || flavour == Flavour::Q4 || flavour == Flavour::Q1) {
    const yi bytes = bytes_of(group);
    if (flavour != Flavour::Q4) {
      put(out + 32 * half, bytes);
    } else {
      const yi split = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14,
                                        1, 3, 5, 7, 9, 11, 13, 15);
      const yi ordered = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(bytes, split), 0xD8);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16 * half), _mm256_castsi256_si128(ordered));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 32 + 16 * half), _mm256_extracti128_si256(ordered, 1));
    }
  } else {
    put(out + 64 * half, group.first);
    put(out + 64 * half + 32, group.second);
  }
  const int32_t start = -(flavour == Flavour::Q8 ? 128 : flavour == Flavour::Q1 ? 1 : 8) * sum(group);
  __builtin_memcpy(out + kStartAt + 4 * half, &start, 4);
  __builtin_memcpy(out + kScaleAt + 4 * half, &group.scale, 4);
}

// Token t of a tile of `tokens`, one group.
void store_tile(Flavour flavour, const Group& group, uint64_t tokens, uint64_t t, uint8_t* out) {
  const auto put = [&](uint64_t k, const void* dword) { __builtin_memcpy(out + 4 * (k * tokens + t), dword, 4); };
  alignas(32) uint8_t values[64];
  auto* at = reinterpret_cast<yi*>(values);
  if constexpr (kVnni) {
    _mm256_store_si256(at, bytes_of(group));
    for (uint64_t k = 0; k < 8; ++k) put(k, values + 4 * k);
    const int32_t start = -panel_offset(flavour) * sum(group);
    put(8, &start);
    put(9, &group.scale);
  } else {
    _mm256_store_si256(at, group.first);
    _mm256_store_si256(at + 1, group.second);
    for (uint64_t k = 0; k < 16; ++k) put(k, values + 4 * k);
    put(16, &group.scale);
  }
}

}  // namespace

void quantise(const QuantiseJob& job) noexcept {
  const uint64_t tokens = job.tokens;
  for (uint64_t g = job.first_group; g < job.last_group; ++g) {
    if (tokens == 1) {
      uint8_t* out = job.out + g / 2 * kPairBytes;
      store_single(job.flavour, quantise_group(job.x + 32 * (g - job.first_group)), g % 2, out);
      // The missing half of a last pair multiplies weights of the half before it; its result is not used.
      if (g + 1 == job.groups && g % 2 == 0) {
        store_single(job.flavour, {_mm256_setzero_si256(), _mm256_setzero_si256(), 0}, 1, out);
      }
      continue;
    }
    uint8_t* out = job.out + kTokenGroupBytes * tokens * g;
    for (uint64_t t = 0; t < tokens; ++t) {
      const float* x = job.x + t * job.stride + 32 * (g - job.first_group);
      store_tile(job.flavour, quantise_group(x), tokens, t, out);
    }
  }
}

}  // namespace cortiq::kernels::CORTIQ_LEVEL
