#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // gcc 12 warns of its own _mm512_undefined_ps
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "codec/loops.h"

namespace cortiq::codec {
namespace {

constexpr size_t kLanes = 16;
typedef float F __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));

F maximum(F a, F b) { return _mm512_max_ps(a, b); }
F minimum(F a, F b) { return _mm512_min_ps(a, b); }

F lookup(const float* table, I at) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), reinterpret_cast<__m512i>(at), _mm512_loadu_ps(table + 16));
}

void narrow(I value, void* out) {
  const __m128i bytes = _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(value));
  __builtin_memcpy(out, &bytes, sizeof bytes);
}

// 16 tiles × 16 elements: within each 128-bit part pairs and quads change places, then the parts themselves.
void transpose16(const float* v, float* columns) {
  __m512 r[16], s[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(v + 32 * i);
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(s[i], s[i + 2], 0xEE);
    r[i + 2] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
  }
  // r[4k + c], part p: element 4p + c of tiles 4k..4k+3
  for (int c = 0; c < 4; ++c) {
    const __m512 even_low = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xDD);
    const __m512 even_high = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xDD);
    const auto at = [&](int element) { return columns + kLanes * static_cast<size_t>(element); };
    _mm512_storeu_ps(at(c), _mm512_shuffle_f32x4(even_low, even_high, 0x88));
    _mm512_storeu_ps(at(4 + c), _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
    _mm512_storeu_ps(at(8 + c), _mm512_shuffle_f32x4(even_low, even_high, 0xDD));
    _mm512_storeu_ps(at(12 + c), _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD));
  }
}

void transpose(const float* v, float* columns) {
  transpose16(v, columns);
  transpose16(v + 16, columns + 16 * kLanes);
}

}  // namespace
}  // namespace cortiq::codec

#include "codec/loops_body.h"

namespace cortiq::codec {
const Loops& loops_avx512() noexcept { return kLoops; }
}  // namespace cortiq::codec
