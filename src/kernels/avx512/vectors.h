#pragma once
// Vector building blocks of the AVX-512 kernels. Everything is in an anonymous namespace: the object files that include
// this are compiled with flags that no other code may see.
#if defined(__GNUC__) && !defined(__clang__)
// gcc 12's own header writes "undefined" vectors as v = v and then warns about it.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "kernels/level_body.h"

namespace cortiq::kernels {
namespace {

using zi = __m512i;
using zf = __m512;

/// Addresses of the rows of a block.
using RowPointers = const uint8_t* const*;

/// A vector's worth of constants.
template <class T>
struct alignas(64) Table {
  T at[64 / sizeof(T)];
};
using ByteTable = Table<uint8_t>;
using WordTable = Table<uint16_t>;

/// A table whose entry i is f(i), made at compile time.
template <class T, class F>
constexpr Table<T> make_table(F f) {
  Table<T> table{};
  for (uint32_t i = 0; i < 64 / sizeof(T); ++i) table.at[i] = static_cast<T>(f(i));
  return table;
}
template <class F>
constexpr ByteTable byte_table(F f) {
  return make_table<uint8_t>(f);
}
template <class F>
constexpr WordTable word_table(F f) {
  return make_table<uint16_t>(f);
}

template <class T>
CORTIQ_INLINE zi load_table(const Table<T>& table) {
  return _mm512_load_si512(table.at);
}
CORTIQ_INLINE float half_value(const uint8_t* at) { return _cvtsh_ss(load<uint16_t>(at)); }
CORTIQ_INLINE zi load_bytes(const void* at) { return _mm512_loadu_si512(at); }
/// The float step of the definition: acc = fma(float(dot), scale, acc).
CORTIQ_INLINE zf accumulate(zi dot, zf scale, zf acc) { return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc); }
CORTIQ_INLINE zi broadcast(const uint8_t* at) {
  int32_t value;
  __builtin_memcpy(&value, at, 4);
  return _mm512_set1_epi32(value);
}
CORTIQ_INLINE zf broadcast_float(const uint8_t* at) { return _mm512_castsi512_ps(broadcast(at)); }
CORTIQ_INLINE void prefetch(const uint8_t* at) { _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0); }

CORTIQ_INLINE __mmask64 first_bytes(uint64_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
CORTIQ_INLINE __mmask16 first_lanes(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1); }

/// Stores outputs of a block; a NaN as 0x7FC00000.
CORTIQ_INLINE void store_outputs(float* y, uint32_t rows, zf value) {
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  value = _mm512_mask_mov_ps(value, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000)));
  _mm512_mask_storeu_ps(y, first_lanes(rows), value);
}

/// 16×16 transpose of 32-bit elements: afterwards r[j] holds what was element j of r[0] … r[15].
CORTIQ_INLINE void transpose16(zf* r) {
  zf t[16], u[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    t[i + 2] = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
    t[i + 3] = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
    const auto pair = [](zf v) __attribute__((always_inline)) { return _mm512_castps_pd(v); };
    u[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(t[i]), pair(t[i + 2])));
    u[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(t[i]), pair(t[i + 2])));
    u[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pair(t[i + 1]), pair(t[i + 3])));
    u[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pair(t[i + 1]), pair(t[i + 3])));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {  // u[4q + j]: 128-bit lane L is column 4L + j of rows 4q … 4q + 3
    const zf a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);
    const zf c = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xDD), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xDD);
    r[j] = _mm512_shuffle_f32x4(a, b, 0x88);
    r[8 + j] = _mm512_shuffle_f32x4(a, b, 0xDD);
    r[4 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
    r[12 + j] = _mm512_shuffle_f32x4(c, d, 0xDD);
  }
}

/// 4×4 transpose of 128-bit lanes: lane L of r[q] goes to lane q of g[L].
CORTIQ_INLINE void transpose_lanes(const zi* r, zi* g) {
  const zi t0 = _mm512_shuffle_i32x4(r[0], r[1], 0x88), t1 = _mm512_shuffle_i32x4(r[2], r[3], 0x88);
  const zi u0 = _mm512_shuffle_i32x4(r[0], r[1], 0xDD), u1 = _mm512_shuffle_i32x4(r[2], r[3], 0xDD);
  g[0] = _mm512_shuffle_i32x4(t0, t1, 0x88);
  g[2] = _mm512_shuffle_i32x4(t0, t1, 0xDD);
  g[1] = _mm512_shuffle_i32x4(u0, u1, 0x88);
  g[3] = _mm512_shuffle_i32x4(u0, u1, 0xDD);
}

}  // namespace
}  // namespace cortiq::kernels
