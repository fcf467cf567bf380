#include <immintrin.h>

#include "probe.h"

namespace cortiq::bench {

int64_t read_avx2(const uint8_t* data, size_t bytes) {
  __m256i sum[8] = {};
  for (size_t at = 0; at + 256 <= bytes; at += 256) {
    for (size_t i = 0; i < 8; ++i) {
      sum[i] = _mm256_add_epi32(sum[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + at + 32 * i)));
    }
  }
  for (size_t i = 1; i < 8; ++i) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum[0]);
  int64_t total = 0;
  for (const int32_t lane : lanes) total += lane;
  return total;
}

double multiply_avx2(int rounds) {
  __m256i sum[4] = {};
  const __m256i one = _mm256_set1_epi16(1), x = _mm256_set1_epi32(0x01020304), y = _mm256_set1_epi32(0x7F010203);
  for (int round = 0; round < 3 * rounds; ++round) {
    for (__m256i& s : sum) {
      __m256i product;
      asm volatile("vpmaddubsw %2, %1, %0" : "=x"(product) : "x"(x), "x"(y));
      s = _mm256_add_epi32(s, _mm256_madd_epi16(product, one));
    }
  }
  asm volatile("" ::"x"(sum[0]), "x"(sum[1]), "x"(sum[2]), "x"(sum[3]));
  return 32.0 * 12 * rounds;
}

}  // namespace cortiq::bench
