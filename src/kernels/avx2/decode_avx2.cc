// Rows decoded to f32 for exact mode: the codec's own formulas, eight weights at a time.
#include "kernels/avx2/scales.h"
#include "kernels/avx2/shared.h"

namespace cortiq::kernels::avx2 {
namespace {

CORTIQ_INLINE void decode_group(const int16_t* codes, yf scale, bool ternary, float* out) {
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; ++i) {
    yf v = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(load_half_vector(codes + 8 * i))), scale);
    if (ternary) v = _mm256_add_ps(v, _mm256_setzero_ps());  // a ternary zero is +0 whatever the scale's sign
    _mm256_storeu_ps(out + 8 * i, v);
  }
}

template <Weights W>
void decode_block(const Planes& w, const Block& block, uint8_t* scratch, float* out, uint64_t pitch) {
  float* scales = reinterpret_cast<float*>(scratch);
  int16_t* stage = reinterpret_cast<int16_t*>(scales + kBlockRows * w.groups);
  group_scales(w, block, scales);
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    fill_stage<W>(w, block, 0, kBlockRows, first, last, stage);
    for (uint32_t r = 0; r < block.rows; ++r) {
      for (uint64_t g = first; g < last; ++g) {
        const float scale = W == Weights::Q8 ? block.row_scale[r] : scales[kBlockRows * g + r];
        decode_group(stage + kStageRow * r + 32 * (g - first), _mm256_set1_ps(scale), W == Weights::Q1t,
                     out + pitch * r + 32 * g);
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

}  // namespace cortiq::kernels::avx2
