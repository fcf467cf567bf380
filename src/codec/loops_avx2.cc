#include <immintrin.h>

#include "codec/loops.h"

namespace cortiq::codec {
namespace {

constexpr size_t kLanes = 8;
typedef float F __attribute__((vector_size(32)));
typedef int32_t I __attribute__((vector_size(32)));

F maximum(F a, F b) { return _mm256_max_ps(a, b); }
F minimum(F a, F b) { return _mm256_min_ps(a, b); }
F lookup(const float* table, I at) { return _mm256_i32gather_ps(table, reinterpret_cast<__m256i>(at), 4); }

void narrow(I value, void* out) {
  const __m256i first_bytes = _mm256_set1_epi32(0x0C080400);
  const __m256i packed = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(value), first_bytes);
  const int32_t bytes[2] = {_mm256_extract_epi32(packed, 0), _mm256_extract_epi32(packed, 4)};
  __builtin_memcpy(out, bytes, sizeof bytes);
}

// 8 tiles × 8 elements: pairs, quads, then halves of registers change places.
void transpose8(const float* v, float* columns) {
  __m256 r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(v + 32 * i);
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(columns + kLanes * static_cast<size_t>(i), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(columns + kLanes * static_cast<size_t>(i + 4), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

void transpose(const float* v, float* columns) {
  for (size_t j = 0; j < 32; j += 8) transpose8(v + j, columns + kLanes * j);
}

}  // namespace
}  // namespace cortiq::codec

#include "codec/loops_body.h"

namespace cortiq::codec {
const Loops& loops_avx2() noexcept { return kLoops; }
}  // namespace cortiq::codec
