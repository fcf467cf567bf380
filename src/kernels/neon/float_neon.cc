// Float matrices: the 16 lanes of the definition are four vectors.
#include "kernels/float_body.h"
#include "kernels/neon/kernels.h"
#include "kernels/neon/vectors.h"

namespace cortiq::kernels::neon {
namespace {

/// Four elements.
template <Format F>
CORTIQ_INLINE float32x4_t load4(const uint8_t* at) {
  if constexpr (F == Format::F32) return vld1q_f32(reinterpret_cast<const float*>(at));
  const uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(at));  // at any address
  if constexpr (F == Format::F16) return widen_halves(halves);
  return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

template <Format F>
CORTIQ_INLINE float load1(const uint8_t* at) {
  if constexpr (F == Format::F32) return load<float>(at);
  if constexpr (F == Format::F16) return half_value(at);
  const uint32_t bits = static_cast<uint32_t>(load<uint16_t>(at)) << 16;
  return load<float>(reinterpret_cast<const uint8_t*>(&bits));
}

struct Sixteen {
  float32x4_t v[4];
};

/// Lanes l and l + 8 are added, then + 4, + 2, + 1.
CORTIQ_INLINE float tree(const Sixteen& a) {
  const float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float sum = vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
  return sum == sum ? sum : __builtin_nanf("");
}

/// The last step: n < 16 lanes have a column, the others keep their values.
template <Format F>
CORTIQ_INLINE void last_step(const uint8_t* w, const float* x, uint64_t n, Sixteen& acc) {
  float lane[16];
  for (uint32_t i = 0; i < 4; ++i) vst1q_f32(lane + 4 * i, acc.v[i]);
  for (uint64_t i = 0; i < n; ++i) lane[i] = __builtin_fmaf(load1<F>(w + kElement<F> * i), x[i], lane[i]);
  for (uint32_t i = 0; i < 4; ++i) acc.v[i] = vld1q_f32(lane + 4 * i);
}

template <Format F, uint32_t R, uint32_t T>
void tile(const FloatJob& job, uint32_t row, uint64_t token) {
  const uint8_t* w[R];
  const float* x[T];
  for (uint32_t r = 0; r < R; ++r) w[r] = job.rows[row + r];
  for (uint32_t t = 0; t < T; ++t) x[t] = job.x + (token + t) * job.x_stride;
  Sixteen acc[R][T];
#pragma GCC unroll 4
  for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (uint32_t t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; ++i) acc[r][t].v[i] = vdupq_n_f32(0);
    }
  }
  uint64_t c = 0;
  for (; c + 16 <= job.cols; c += 16) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      float32x4_t a[T];
#pragma GCC unroll 2
      for (uint32_t t = 0; t < T; ++t) a[t] = vld1q_f32(x[t] + c + 4 * i);
#pragma GCC unroll 4
      for (uint32_t r = 0; r < R; ++r) {
        const float32x4_t v = load4<F>(w[r] + kElement<F> * (c + 4 * i));
#pragma GCC unroll 2
        for (uint32_t t = 0; t < T; ++t) acc[r][t].v[i] = vfmaq_f32(acc[r][t].v[i], v, a[t]);
      }
    }
  }
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t t = 0; t < T; ++t) {
      if (c < job.cols) last_step<F>(w[r] + kElement<F> * c, x[t] + c, job.cols - c, acc[r][t]);
      job.y[(token + t) * job.y_stride + row + r] = tree(acc[r][t]);
    }
  }
}

template <Format F>
void widen_all(const uint8_t* from, uint64_t n, float* to) {
  uint64_t i = 0;
  for (; i + 4 <= n; i += 4) vst1q_f32(to + i, load4<F>(from + kElement<F> * i));
  for (; i < n; ++i) to[i] = load1<F>(from + kElement<F> * i);
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

}  // namespace cortiq::kernels::neon
