#include <immintrin.h>

#include "probe_float.h"

namespace cortiq::bench {

double fma_avx512(int rounds) {
  __m512 acc[16];
  for (auto& a : acc) a = _mm512_set1_ps(1.0f);
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (int r = 0; r < rounds; ++r) {
    for (auto& a : acc) a = _mm512_fmadd_ps(a, factor, factor);
  }
  volatile float sink = 0;
  for (auto& a : acc) sink = sink + _mm512_cvtss_f32(a);
  return 256.0 * rounds;
}

}  // namespace cortiq::bench
