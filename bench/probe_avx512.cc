#include <immintrin.h>

#include "probe.h"

namespace cortiq::bench {

int64_t read_avx512(const uint8_t* data, size_t bytes) {
  __m512i sum[8] = {};
  for (size_t at = 0; at + 512 <= bytes; at += 512) {
    for (size_t i = 0; i < 8; ++i) sum[i] = _mm512_add_epi32(sum[i], _mm512_loadu_si512(data + at + 64 * i));
  }
  for (size_t i = 1; i < 8; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  int64_t lanes[8];
  _mm512_storeu_si512(lanes, sum[0]);
  return lanes[0];
}

double multiply_avx512(int rounds) {
  __m512i sum[4] = {};
  const __m512i one = _mm512_set1_epi16(1), x = _mm512_set1_epi32(0x01020304), y = _mm512_set1_epi32(0x7F010203);
  for (int round = 0; round < 3 * rounds; ++round) {
    for (__m512i& s : sum) {
      __m512i product;
      asm volatile("vpmaddubsw %2, %1, %0" : "=v"(product) : "v"(x), "v"(y));
      s = _mm512_add_epi32(s, _mm512_madd_epi16(product, one));
    }
  }
  asm volatile("" ::"v"(sum[0]), "v"(sum[1]), "v"(sum[2]), "v"(sum[3]));
  return 64.0 * 12 * rounds;
}

}  // namespace cortiq::bench
