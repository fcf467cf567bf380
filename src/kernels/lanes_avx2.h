#pragma once
#include <immintrin.h>

#include <cstdint>

// Sixteen lanes of f32 in two AVX registers; lanes_scalar.h says what each operation means.
namespace cortiq::kernels {
namespace {

struct Lanes {
  __m256 lo, hi;
};
struct Ints {
  __m256i lo, hi;
};
struct Mask {
  __m256 lo, hi;
};
struct Doubles {
  __m256d lo, hi;
};

// Four accumulators take eight of the sixteen registers.
constexpr int kTileRows = 2, kTileAccumulators = 4;

inline __m256i lane_numbers() noexcept { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
/// All ones in lanes below n.
inline __m256i first(int n) noexcept { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane_numbers()); }

inline Lanes set(float x) noexcept { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) noexcept { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Lanes load_part(const float* p, uint64_t n) noexcept {
  const int count = static_cast<int>(n);
  return {_mm256_maskload_ps(p, first(count)), _mm256_maskload_ps(p + 8, first(count - 8))};
}
inline float first_lane(Lanes a) noexcept { return _mm256_cvtss_f32(a.lo); }
inline void store(float* p, Lanes a) noexcept {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline void store_part(float* p, Lanes a, uint64_t n) noexcept {
  const int count = static_cast<int>(n);
  _mm256_maskstore_ps(p, first(count), a.lo);
  _mm256_maskstore_ps(p + 8, first(count - 8), a.hi);
}

inline Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Lanes operator/(Lanes a, Lanes b) noexcept { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Lanes fma(Lanes a, Lanes b, Lanes c) noexcept {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Lanes fnma(Lanes a, Lanes b, Lanes c) noexcept {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
inline Lanes max(Lanes a, Lanes b) noexcept { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Lanes min(Lanes a, Lanes b) noexcept { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Lanes abs(Lanes a) noexcept {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline Lanes copysign(Lanes a, Lanes b) noexcept {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_blendv_ps(_mm256_andnot_ps(sign, a.lo), _mm256_or_ps(sign, a.lo), b.lo),
          _mm256_blendv_ps(_mm256_andnot_ps(sign, a.hi), _mm256_or_ps(sign, a.hi), b.hi)};
}

inline Mask less(Lanes a, Lanes b) noexcept {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
inline Mask unordered(Lanes a) noexcept {
  return {_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
inline Mask range(int from, int to) noexcept {
  return {_mm256_castsi256_ps(_mm256_andnot_si256(first(from), first(to))),
          _mm256_castsi256_ps(_mm256_andnot_si256(first(from - 8), first(to - 8)))};
}
inline Lanes select(Mask m, Lanes a, Lanes b) noexcept {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}

inline Ints bits(Lanes a) noexcept { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
inline Lanes floats(Ints a) noexcept { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
inline Ints set(int32_t x) noexcept { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints operator+(Ints a, Ints b) noexcept { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
inline Ints operator-(Ints a, Ints b) noexcept { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
inline Ints half_of(Ints a) noexcept { return {_mm256_srai_epi32(a.lo, 1), _mm256_srai_epi32(a.hi, 1)}; }
inline Ints shift_to_exponent(Ints a) noexcept { return {_mm256_slli_epi32(a.lo, 23), _mm256_slli_epi32(a.hi, 23)}; }
inline Lanes power_of_two(Ints n) noexcept { return floats(shift_to_exponent(n + set(int32_t{127}))); }
inline Lanes times_power_of_two(Lanes a, Lanes, Ints n) noexcept {
  const Ints half = half_of(n);
  return a * power_of_two(half) * power_of_two(n - half);
}

inline float sum(Lanes a) noexcept {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Lanes a) noexcept {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Each step of the tree adds the halves of two vectors at once; half b, element e of eight results is a[4b + e].
inline __m256 eight_sums(const Lanes* a) noexcept {
  __m256 quarter[4];
  for (int e = 0; e < 4; ++e) {
    const __m256 p = _mm256_add_ps(a[e].lo, a[e].hi), q = _mm256_add_ps(a[4 + e].lo, a[4 + e].hi);
    quarter[e] = _mm256_add_ps(_mm256_permute2f128_ps(p, q, 0x20), _mm256_permute2f128_ps(p, q, 0x31));
  }
  const auto by_two = [](__m256 x, __m256 y) {
    return _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xEE));
  };
  const __m256 x = by_two(quarter[0], quarter[1]), y = by_two(quarter[2], quarter[3]);
  return _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xDD));
}
inline Lanes sums(const Lanes (&a)[16]) noexcept { return {eight_sums(a), eight_sums(a + 8)}; }

inline Doubles zero_doubles() noexcept { return {_mm256_setzero_pd(), _mm256_setzero_pd()}; }
inline Doubles add_squares(Doubles acc, const float* p) noexcept {
  const __m256d lo = _mm256_cvtps_pd(_mm_loadu_ps(p)), hi = _mm256_cvtps_pd(_mm_loadu_ps(p + 4));
  return {_mm256_fmadd_pd(lo, lo, acc.lo), _mm256_fmadd_pd(hi, hi, acc.hi)};
}
inline double sum(Doubles a) noexcept {
  const __m256d four = _mm256_add_pd(a.lo, a.hi);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
inline double square_root(double x) noexcept { return _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set1_pd(x))); }

inline Lanes load_half(const uint16_t* p) noexcept {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
inline void store_half(uint16_t* p, Lanes a) noexcept {
  const Lanes limit = set(65504.0f);
  const Lanes held = copysign(min(abs(a), limit), a);
  const Lanes nan = copysign(set(__builtin_nanf("")), a);
  const Lanes value = select(unordered(a), nan, held);
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(value.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(value.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline Lanes load_codes(const int8_t* p) noexcept {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)))};
}
inline void store_codes(int8_t* p, Ints a) noexcept {
  const __m256i words = _mm256_packs_epi32(a.lo, a.hi);
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

}  // namespace
}  // namespace cortiq::kernels
