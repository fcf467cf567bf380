// Rows decoded to f32 for exact mode: the codec's own formulas, four weights at a time.
#include "kernels/neon/kernels.h"
#include "kernels/neon/scales.h"

namespace cortiq::kernels::neon {
namespace {

template <Weights W>
CORTIQ_INLINE void decode_half(int8x16_t codes, float scale, float* out) {
  const int16x8_t words[2] = {vmovl_s8(vget_low_s8(codes)), vmovl_s8(vget_high_s8(codes))};
#pragma GCC unroll 2
  for (uint32_t i = 0; i < 2; ++i) {
    // What a code of vbit lacks is only the sum of activations with the kernels that multiply.
    const int16x8_t code = W == Weights::Vbit ? vaddq_s16(words[i], vdupq_n_s16(1)) : words[i];
    float32x4_t low = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(code))), scale);
    float32x4_t high = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(code))), scale);
    if constexpr (W == Weights::Q1t) {  // a ternary zero is +0 whatever the scale's sign
      low = vaddq_f32(low, vdupq_n_f32(0));
      high = vaddq_f32(high, vdupq_n_f32(0));
    }
    vst1q_f32(out + 8 * i, low);
    vst1q_f32(out + 8 * i + 4, high);
  }
}

template <Weights W>
void decode_block(const Planes& w, const Block& block, uint8_t* scratch, float* out, uint64_t pitch) {
  float* scales = reinterpret_cast<float*>(scratch);
  int8_t* stage = reinterpret_cast<int8_t*>(scales + kBlockRows * w.groups);
  group_scales(w, block, scales);
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    fill_stage<W>(block, 0, kBlockRows, first, last, stage);
    for (uint32_t r = 0; r < block.rows; ++r) {
      for (uint64_t g = first; g < last; ++g) {
        Codes codes = group_codes<W>(w, block, r, g, stage + kStageRow * r + 32 * (g - first));
        if constexpr (kNibbles<W>) {
          codes = {vzip1q_s8(codes.first, codes.second), vzip2q_s8(codes.first, codes.second)};
        }
        const float scale = W == Weights::Q8 ? block.row_scale[r] : scales[kBlockRows * g + r];
        decode_half<W>(codes.first, scale, out + pitch * r + 32 * g);
        decode_half<W>(codes.second, scale, out + pitch * r + 32 * g + 16);
      }
    }
  }
}

}  // namespace

void decode(const IntegerJob& job, float* out, uint64_t pitch) noexcept {
  decode_rows<half_value>(job, out, pitch, [&]<Weights W>(const Block& block, float* rows) {
    decode_block<W>(*job.weight, block, job.scratch, rows, pitch);
  });
}

}  // namespace cortiq::kernels::neon
