#pragma once
// Vector building blocks of the NEON kernels, in an anonymous namespace as those of AVX2 are.
#include <arm_neon.h>

#include "kernels/level_body.h"

namespace cortiq::kernels {
namespace {

inline constexpr uint32_t kLanes = 4;  ///< rows that a vector of floats holds

CORTIQ_INLINE float half_value(const uint8_t* at) { return static_cast<float>(load<__fp16>(at)); }
CORTIQ_INLINE float32x4_t widen_halves(uint16x4_t halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }

/// The float step of the definition: acc = fma(float(dot), scale, acc).
CORTIQ_INLINE float32x4_t accumulate(int32x4_t dot, float32x4_t scale, float32x4_t acc) {
  return vfmaq_f32(acc, vcvtq_f32_s32(dot), scale);
}

/// Stores the first `rows` outputs of four; a NaN as 0x7FC00000.
CORTIQ_INLINE void store_outputs(float* y, uint32_t rows, float32x4_t value) {
  value = vbslq_f32(vceqq_f32(value, value), value, vdupq_n_f32(__builtin_nanf("")));
  if (rows >= kLanes) {
    vst1q_f32(y, value);
    return;
  }
  float part[kLanes];
  vst1q_f32(part, value);
  __builtin_memcpy(y, part, rows * sizeof(float));
}

/// 4×4 transpose of 32-bit elements.
CORTIQ_INLINE void transpose4(uint32x4_t* r) {
  const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(r[0], r[1])), b = vreinterpretq_u64_u32(vtrn2q_u32(r[0], r[1]));
  const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(r[2], r[3])), d = vreinterpretq_u64_u32(vtrn2q_u32(r[2], r[3]));
  r[0] = vreinterpretq_u32_u64(vtrn1q_u64(a, c));
  r[1] = vreinterpretq_u32_u64(vtrn1q_u64(b, d));
  r[2] = vreinterpretq_u32_u64(vtrn2q_u64(a, c));
  r[3] = vreinterpretq_u32_u64(vtrn2q_u64(b, d));
}

}  // namespace
}  // namespace cortiq::kernels
