// Float matrices: the 16 lanes of the definition are two vectors of eight.
#include "kernels/avx2/shared.h"
#include "kernels/avx2/vectors.h"
#include "kernels/float_body.h"

namespace cortiq::kernels::avx2 {
namespace {

template <Format F>
CORTIQ_INLINE yf load(const uint8_t* at) {
  if constexpr (F == Format::F32) return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
  if constexpr (F == Format::F16) return _mm256_cvtph_ps(load_half_vector(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half_vector(at)), 16));
}

/// The first n < 8 elements, then zeros.
template <Format F>
CORTIQ_INLINE yf load_some(const uint8_t* at, uint64_t n) {
  alignas(32) uint8_t copy[32] = {};
  __builtin_memcpy(copy, at, kElement<F> * n);
  return load<F>(copy);
}

CORTIQ_INLINE float tree(yf low, yf high) {
  const yf eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  const float sum = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  return sum == sum ? sum : __builtin_nanf("");
}

/// Eight lanes of the last step, `n` of them with a column; a lane without one keeps its value.
template <Format F>
CORTIQ_INLINE yf last_step(const uint8_t* w, const float* x, uint64_t n, yf acc) {
  if (n >= 8) return _mm256_fmadd_ps(load<F>(w), _mm256_loadu_ps(x), acc);
  const yf v = load_some<F>(w, n), a = load_some<Format::F32>(reinterpret_cast<const uint8_t*>(x), n);
  return _mm256_blendv_ps(acc, _mm256_fmadd_ps(v, a, acc), _mm256_castsi256_ps(first_lanes(n)));
}

template <Format F, uint32_t R, uint32_t T>
void tile(const FloatJob& job, uint32_t row, uint64_t token) {
  const uint8_t* w[R];
  const float* x[T];
  for (uint32_t r = 0; r < R; ++r) w[r] = job.rows[row + r];
  for (uint32_t t = 0; t < T; ++t) x[t] = job.x + (token + t) * job.x_stride;
  yf low[R][T], high[R][T];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (uint32_t t = 0; t < T; ++t) low[r][t] = high[r][t] = _mm256_setzero_ps();
  }
  uint64_t c = 0;
  for (; c + 16 <= job.cols; c += 16) {
    yf v0[R], v1[R];
#pragma GCC unroll 4
    for (uint32_t r = 0; r < R; ++r) {
      v0[r] = load<F>(w[r] + kElement<F> * c);
      v1[r] = load<F>(w[r] + kElement<F> * (c + 8));
    }
#pragma GCC unroll 4
    for (uint32_t t = 0; t < T; ++t) {
      const yf a0 = _mm256_loadu_ps(x[t] + c), a1 = _mm256_loadu_ps(x[t] + c + 8);
#pragma GCC unroll 4
      for (uint32_t r = 0; r < R; ++r) {
        low[r][t] = _mm256_fmadd_ps(v0[r], a0, low[r][t]);
        high[r][t] = _mm256_fmadd_ps(v1[r], a1, high[r][t]);
      }
    }
  }
  if (const uint64_t n = job.cols - c; n != 0) {
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t t = 0; t < T; ++t) {
        low[r][t] = last_step<F>(w[r] + kElement<F> * c, x[t] + c, n, low[r][t]);
        if (n > 8) high[r][t] = last_step<F>(w[r] + kElement<F> * (c + 8), x[t] + c + 8, n - 8, high[r][t]);
      }
    }
  }
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t t = 0; t < T; ++t) job.y[(token + t) * job.y_stride + row + r] = tree(low[r][t], high[r][t]);
  }
}

template <Format F>
void widen_all(const uint8_t* from, uint64_t n, float* to) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, load<F>(from + kElement<F> * i));
  if (i < n) _mm256_maskstore_ps(to + i, first_lanes(n - i), load_some<F>(from + kElement<F> * i, n - i));
}

}  // namespace

void floating(const FloatJob& job) noexcept {
  for_format(job.format, [&]<Format F>() {
    each_small_tile(job, [&]<uint32_t R, uint32_t T>(uint32_t row, uint64_t token) { tile<F, R, T>(job, row, token); });
  });
}

void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept {
  for_format(format, [&]<Format F>() { widen_all<F>(from, n, to); });
}

}  // namespace cortiq::kernels::avx2
