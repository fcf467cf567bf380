#include <immintrin.h>

#include "base/hash64_loops.h"

namespace cortiq {
namespace {

constexpr uint64_t kLanes = 4;

/// A factor and its upper halves, as products of 32-bit parts need them.
struct Factor {
  __m256i whole, high;
  explicit Factor(uint64_t value)
      : whole(_mm256_set1_epi64x(static_cast<int64_t>(value))),
        high(_mm256_set1_epi64x(static_cast<int64_t>(value >> 32))) {}
};

// The low 64 bits of x·f: AVX2 multiplies 32 by 32 bits only.
inline __m256i multiply(__m256i x, const Factor& f) {
  const __m256i cross =
      _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(x, 32), f.whole), _mm256_mul_epu32(x, f.high));
  return _mm256_add_epi64(_mm256_mul_epu32(x, f.whole), _mm256_slli_epi64(cross, 32));
}

inline __m256i shift_xor(__m256i x) { return _mm256_xor_si256(x, _mm256_srli_epi64(x, 33)); }

inline uint64_t scalar_term(const uint8_t* word, uint64_t index) {
  uint64_t x;
  __builtin_memcpy(&x, word, 8);
  x ^= x >> 33;
  x *= kHash64Factor1;
  x ^= x >> 33;
  x *= kHash64Factor2;
  return x ^ x >> 33 ^ index * kHash64Salt;
}

}  // namespace

uint64_t hash64_fold_avx2(const uint8_t* words, uint64_t count, uint64_t first) noexcept {
  const Factor factor1(kHash64Factor1), factor2(kHash64Factor2);
  uint64_t salts[kLanes];
  for (uint64_t l = 0; l < kLanes; ++l) salts[l] = (first + l) * kHash64Salt;
  __m256i salt = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(salts));
  const __m256i step = _mm256_set1_epi64x(static_cast<int64_t>(kLanes * kHash64Salt));

  __m256i fold[4] = {};
  uint64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    // A page ahead, where the processor's own prefetcher does not go (hash64_avx512.cc).
    _mm_prefetch(reinterpret_cast<const char*>(words + 8 * i) + 4096, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(words + 8 * i) + 4160, _MM_HINT_T0);
    for (uint64_t k = 0; k < 4; ++k) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 8 * (i + k * kLanes)));
      const __m256i mixed = shift_xor(multiply(shift_xor(multiply(shift_xor(x), factor1)), factor2));
      fold[k] = _mm256_xor_si256(fold[k], _mm256_xor_si256(mixed, salt));
      salt = _mm256_add_epi64(salt, step);
    }
  }
  uint64_t lanes[kLanes], result = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes),
                      _mm256_xor_si256(_mm256_xor_si256(fold[0], fold[1]), _mm256_xor_si256(fold[2], fold[3])));
  for (const uint64_t lane : lanes) result ^= lane;
  for (; i < count; ++i) result ^= scalar_term(words + 8 * i, first + i);
  return result;
}

}  // namespace cortiq
