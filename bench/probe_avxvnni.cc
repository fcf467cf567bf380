#include <immintrin.h>

#include "probe.h"

namespace cortiq::bench {

double multiply_avxvnni(int rounds) {
  __m256i a[12] = {};
  const __m256i x = _mm256_set1_epi32(0x01020304), y = _mm256_set1_epi32(0x7F010203);
  for (int round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (__m256i& sum : a) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  }
  return 32.0 * 12 * rounds;
}

}  // namespace cortiq::bench
