#pragma once
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12's own header starts from undefined registers
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

// Sixteen lanes of f32 in one AVX-512 register; lanes_scalar.h says what each operation means.
namespace cortiq::kernels {
namespace {

struct Lanes {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};
struct Doubles {
  __m512d v;
};

// Sixteen accumulators leave half of the registers for operands.
constexpr int kTileRows = 4, kTileAccumulators = 16;

inline __mmask16 first(uint64_t n) noexcept { return static_cast<__mmask16>((uint32_t{1} << n) - 1); }

inline Lanes set(float x) noexcept { return {_mm512_set1_ps(x)}; }
inline Lanes load(const float* p) noexcept { return {_mm512_loadu_ps(p)}; }
inline Lanes load_part(const float* p, uint64_t n) noexcept { return {_mm512_maskz_loadu_ps(first(n), p)}; }
inline float first_lane(Lanes a) noexcept { return _mm512_cvtss_f32(a.v); }
inline void store(float* p, Lanes a) noexcept { _mm512_storeu_ps(p, a.v); }
inline void store_part(float* p, Lanes a, uint64_t n) noexcept { _mm512_mask_storeu_ps(p, first(n), a.v); }

inline Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm512_add_ps(a.v, b.v)}; }
inline Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm512_sub_ps(a.v, b.v)}; }
inline Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm512_mul_ps(a.v, b.v)}; }
inline Lanes operator/(Lanes a, Lanes b) noexcept { return {_mm512_div_ps(a.v, b.v)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) noexcept { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes fnma(Lanes a, Lanes b, Lanes c) noexcept { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline Lanes max(Lanes a, Lanes b) noexcept { return {_mm512_max_ps(a.v, b.v)}; }
inline Lanes min(Lanes a, Lanes b) noexcept { return {_mm512_min_ps(a.v, b.v)}; }
inline Lanes abs(Lanes a) noexcept { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
inline Lanes copysign(Lanes a, Lanes b) noexcept {
  return {_mm512_or_ps(abs(a).v, _mm512_and_ps(_mm512_set1_ps(-0.0f), b.v))};
}

inline Mask less(Lanes a, Lanes b) noexcept { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask unordered(Lanes a) noexcept { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline Mask range(int from, int to) noexcept {
  return {static_cast<__mmask16>(first(static_cast<uint64_t>(to)) & ~first(static_cast<uint64_t>(from)))};
}
inline Lanes select(Mask m, Lanes a, Lanes b) noexcept { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }

inline Ints bits(Lanes a) noexcept { return {_mm512_castps_si512(a.v)}; }
inline Lanes floats(Ints a) noexcept { return {_mm512_castsi512_ps(a.v)}; }
inline Ints set(int32_t x) noexcept { return {_mm512_set1_epi32(x)}; }
inline Ints operator+(Ints a, Ints b) noexcept { return {_mm512_add_epi32(a.v, b.v)}; }
inline Ints operator-(Ints a, Ints b) noexcept { return {_mm512_sub_epi32(a.v, b.v)}; }
inline Ints half_of(Ints a) noexcept { return {_mm512_srai_epi32(a.v, 1)}; }
inline Ints shift_to_exponent(Ints a) noexcept { return {_mm512_slli_epi32(a.v, 23)}; }
inline Lanes power_of_two(Ints n) noexcept { return floats(shift_to_exponent(n + set(int32_t{127}))); }
inline Lanes times_power_of_two(Lanes a, Lanes n, Ints) noexcept { return {_mm512_scalef_ps(a.v, n.v)}; }

inline __m256 lower(__m512 a) noexcept { return _mm512_castps512_ps256(a); }
inline __m256 upper(__m512 a) noexcept { return _mm512_extractf32x8_ps(a, 1); }

inline float sum(Lanes a) noexcept {
  const __m256 eight = _mm256_add_ps(lower(a.v), upper(a.v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Lanes a) noexcept {
  const __m256 eight = _mm256_max_ps(lower(a.v), upper(a.v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Each step of the tree adds the halves of two vectors at once; quarter b, element e of the result is a[4b + e].
inline Lanes sums(const Lanes (&a)[16]) noexcept {
  __m512 quarter[4];
  for (int e = 0; e < 4; ++e) {
    const __m512 p = a[e].v, q = a[4 + e].v, r = a[8 + e].v, s = a[12 + e].v;
    const __m512 t = _mm512_add_ps(_mm512_shuffle_f32x4(p, q, 0x44), _mm512_shuffle_f32x4(p, q, 0xEE));
    const __m512 u = _mm512_add_ps(_mm512_shuffle_f32x4(r, s, 0x44), _mm512_shuffle_f32x4(r, s, 0xEE));
    quarter[e] = _mm512_add_ps(_mm512_shuffle_f32x4(t, u, 0x88), _mm512_shuffle_f32x4(t, u, 0xDD));
  }
  const auto by_two = [](__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xEE));
  };
  const __m512 x = by_two(quarter[0], quarter[1]), y = by_two(quarter[2], quarter[3]);
  return {_mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xDD))};
}

inline Doubles zero_doubles() noexcept { return {_mm512_setzero_pd()}; }
inline Doubles add_squares(Doubles acc, const float* p) noexcept {
  const __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(p));
  return {_mm512_fmadd_pd(x, x, acc.v)};
}
inline double sum(Doubles a) noexcept {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(a.v), _mm512_extractf64x4_pd(a.v, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
inline double square_root(double x) noexcept { return _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set1_pd(x))); }

inline Lanes load_half(const uint16_t* p) noexcept {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_half(uint16_t* p, Lanes a) noexcept {
  const Lanes limit = set(65504.0f);
  const Lanes held = copysign(min(abs(a), limit), a);
  const Lanes nan = copysign(set(__builtin_nanf("")), a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(select(unordered(a), nan, held).v, _MM_FROUND_TO_NEAREST_INT));
}
inline Lanes load_codes(const int8_t* p) noexcept {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline void store_codes(int8_t* p, Ints a) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}

}  // namespace
}  // namespace cortiq::kernels
