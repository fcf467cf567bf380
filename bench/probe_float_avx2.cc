#include <immintrin.h>

#include "probe_float.h"

namespace cortiq::bench {

double fma_avx2(int rounds) {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_set1_ps(1.0f);
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (int r = 0; r < rounds; ++r) {
    for (auto& a : acc) a = _mm256_fmadd_ps(a, factor, factor);
  }
  volatile float sink = 0;
  for (auto& a : acc) sink = sink + _mm256_cvtss_f32(a);
  return 96.0 * rounds;
}

}  // namespace cortiq::bench
