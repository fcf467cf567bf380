// int8 activations (decisions 2 of docs/numerics.md) in the arrangement that the NEON kernels read.
#include "kernels/neon/kernels.h"
#include "kernels/neon/vectors.h"

namespace cortiq::kernels::neon {
namespace {

struct Group {
  int8x16_t first, second;
  float scale;
};

CORTIQ_INLINE Group quantise_group(const float* x) {
  float32x4_t v[8];
  uint32x4_t most = vdupq_n_u32(0);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    v[i] = vld1q_f32(x + 4 * i);
    most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(v[i])));
  }
  const uint32_t top = vmaxvq_u32(most);
  float m;
  __builtin_memcpy(&m, &top, 4);
  const int8x16_t zero = vdupq_n_s8(0);
  if (top >= 0x7F800000) return {zero, zero, __builtin_nanf("")};
  if (m < 0x1p-100f) return {zero, zero, 0};
  const float32x4_t inverse = vdupq_n_f32(127.0f / m);
  // |x|·inverse rounds to at most 127: there is nothing to clamp.
  const auto eight = [&](int i) __attribute__((always_inline)) {
    return vmovn_s16(vcombine_s16(vmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[2 * i], inverse))),
                                  vmovn_s32(vcvtnq_s32_f32(vmulq_f32(v[2 * i + 1], inverse)))));
  };
  return {vcombine_s8(eight(0), eight(1)), vcombine_s8(eight(2), eight(3)), m / 127.0f};
}

}  // namespace

void quantise(const QuantiseJob& job) noexcept {
  const uint64_t tokens = job.tokens;
  for (uint64_t g = job.first_group; g < job.last_group; ++g) {
    uint8_t* out = job.out + kTokenGroupBytes * tokens * g;
    for (uint64_t t = 0; t < tokens; ++t) {
      Group group = quantise_group(job.x + t * job.stride + 32 * (g - job.first_group));
      if (job.flavour == Flavour::Q4) {
        const int8x16_t even = vuzp1q_s8(group.first, group.second);
        group.second = vuzp2q_s8(group.first, group.second);
        group.first = even;
      }
      const int32_t start = job.flavour == Flavour::Vbit ? vaddlvq_s8(group.first) + vaddlvq_s8(group.second) : 0;
      int8_t* codes = reinterpret_cast<int8_t*>(out) + 32 * t;
      vst1q_s8(codes, group.first);
      vst1q_s8(codes + 16, group.second);
      __builtin_memcpy(out + 32 * tokens + 4 * t, &group.scale, 4);
      __builtin_memcpy(out + 36 * tokens + 4 * t, &start, 4);
    }
  }
}

}  // namespace cortiq::kernels::neon
