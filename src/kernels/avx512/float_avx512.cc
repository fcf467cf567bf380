// Float matrices: 16 lanes over the columns, one fused multiply-add each (docs/numerics.md). Tiles of rows × tokens
// hide the latency of the chains; each tile ends with one tree a result.
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vectors.h"
#include "kernels/float_body.h"

namespace cortiq::kernels::avx512 {
namespace {

/// 16 elements from `at`; those outside `have` are zero and not read.
template <Format F>
CORTIQ_INLINE zf load(const uint8_t* at, __mmask16 have) {
  if constexpr (F == Format::F32) return _mm512_maskz_loadu_ps(have, at);
  const __m256i halves = _mm256_maskz_loadu_epi16(have, at);
  if constexpr (F == Format::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <Format F>
CORTIQ_INLINE zf load(const uint8_t* at) {
  if constexpr (F == Format::F32) return _mm512_loadu_ps(at);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  if constexpr (F == Format::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// Lanes l and l + 8 are added, then + 4, + 2, + 1.
CORTIQ_INLINE float tree(zf v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  const float sum = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  return sum == sum ? sum : __builtin_nanf("");
}

template <Format F, uint32_t R, uint32_t T>
void tile(const FloatJob& job, uint32_t row, uint64_t token) {
  const uint8_t* w[R];
  const float* x[T];
  for (uint32_t r = 0; r < R; ++r) w[r] = job.rows[row + r];
  for (uint32_t t = 0; t < T; ++t) x[t] = job.x + (token + t) * job.x_stride;
  zf acc[R][T];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) acc[r][t] = _mm512_setzero_ps();
  }
  uint64_t c = 0;
  for (; c + 16 <= job.cols; c += 16) {
    zf v[R];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < R; ++r) {
      v[r] = load<F>(w[r] + kElement<F> * c);
      if constexpr (T == 1) {
        if (c % 32 == 0) prefetch(w[r] + kElement<F> * c + 1024);
      }
    }
#pragma GCC unroll 8
    for (uint32_t t = 0; t < T; ++t) {
      const zf a = _mm512_loadu_ps(x[t] + c);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < R; ++r) acc[r][t] = _mm512_fmadd_ps(v[r], a, acc[r][t]);
    }
  }
  if (c < job.cols) {
    const __mmask16 have = first_lanes(static_cast<uint32_t>(job.cols - c));
    for (uint32_t r = 0; r < R; ++r) {
      const zf v = load<F>(w[r] + kElement<F> * c, have);
      for (uint32_t t = 0; t < T; ++t) {
        // A lane without a column keeps its value: 0·0 would turn −0 into +0.
        acc[r][t] = _mm512_mask3_fmadd_ps(v, _mm512_maskz_loadu_ps(have, x[t] + c), acc[r][t], have);
      }
    }
  }
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t t = 0; t < T; ++t) job.y[(token + t) * job.y_stride + row + r] = tree(acc[r][t]);
  }
}

template <Format F, uint32_t T>
void rows(const FloatJob& job, uint64_t token) {
  constexpr uint32_t R = T == 1 ? 8 : 4;
  uint32_t row = 0;
  for (; row + R <= job.count; row += R) tile<F, R, T>(job, row, token);
  for (; row < job.count; ++row) tile<F, 1, T>(job, row, token);
}

template <Format F>
void multiply(const FloatJob& job) {
  for (uint64_t token = 0; token < job.tokens;) {
    const uint64_t left = job.tokens - token;
    // 6, unless that leaves a remainder of one or two: 7 = 4 + 3, 8 = 4 + 4.
    const uint64_t take = left >= 9 || left == 6 ? 6 : left >= 7 ? 4 : left;
    switch (take) {
      case 1:
        rows<F, 1>(job, token);
        break;
      case 2:
        rows<F, 2>(job, token);
        break;
      case 3:
        rows<F, 3>(job, token);
        break;
      case 4:
        rows<F, 4>(job, token);
        break;
      case 5:
        rows<F, 5>(job, token);
        break;
      default:
        rows<F, 6>(job, token);
        break;
    }
    token += take;
  }
}

template <Format F>
void widen_all(const uint8_t* from, uint64_t n, float* to) {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(to + i, load<F>(from + kElement<F> * i));
  const __mmask16 have = first_lanes(static_cast<uint32_t>(n - i));
  if (have) _mm512_mask_storeu_ps(to + i, have, load<F>(from + kElement<F> * i, have));
}

}  // namespace

void floating(const FloatJob& job) noexcept {
  for_format(job.format, [&]<Format F>() { multiply<F>(job); });
}

void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept {
  for_format(format, [&]<Format F>() { widen_all<F>(from, n, to); });
}

}  // namespace cortiq::kernels::avx512
