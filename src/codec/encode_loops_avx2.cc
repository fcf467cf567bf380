#include <immintrin.h>

#include "codec/encode_loops.h"

namespace cortiq::codec {
namespace {

constexpr size_t kLanes = 8;
typedef float F __attribute__((vector_size(32)));
typedef int32_t I __attribute__((vector_size(32)));
typedef int8_t Q __attribute__((vector_size(8)));

F maximum(F a, F b) { return _mm256_max_ps(a, b); }
F minimum(F a, F b) { return _mm256_min_ps(a, b); }
F lookup(const float* table, I at) { return _mm256_i32gather_ps(table, reinterpret_cast<__m256i>(at), 4); }

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

#include "codec/encode_loops_body.h"

namespace cortiq::codec {
const EncodeLoops& encode_loops_avx2() noexcept { return kLoops; }
}  // namespace cortiq::codec
