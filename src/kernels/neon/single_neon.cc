// Matrix × one token: eight rows at a time, rows as lanes where the floats are. Four partial sums of four rows are
// added pairwise to a vector of four sums, so there is no horizontal sum.
#include "kernels/neon/kernels.h"
#include "kernels/neon/scales.h"

namespace cortiq::kernels::neon {
namespace {

constexpr uint32_t kRows = 2 * kLanes;

struct Sums {
  float32x4_t low, high;
};

// Of the eight rows `next`, which come then, the same places are asked for.
template <Weights W>
Sums multiply_rows(const Planes& w, const Block& block, uint32_t row, const uint8_t* const* next, const uint8_t* token,
                   float* scales, int8_t* stage) {
  Sums acc = {vdupq_n_f32(0), vdupq_n_f32(0)};
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    if constexpr (kTiles<W>) tile_scales(block, row, kRows, kGroupBytes<W>, first, last, scales);
    fill_stage<W>(block, row, kRows, first, last, stage);
    for (uint64_t g = first; g < last; ++g) {
      const uint8_t* at = token + kTokenGroupBytes * g;
      const int8_t* x = reinterpret_cast<const int8_t*>(at);
      const int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
      int32x4_t d[kRows];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        const Codes codes = group_codes<W>(w, block, row + r, g, stage + kStageRow * r + 32 * (g - first));
        d[r] = vdotq_s32(vdotq_s32(vdupq_n_s32(0), codes.first, x0), codes.second, x1);
        if constexpr (!kStaged<W>) __builtin_prefetch(next[r] + kGroupBytes<W> * g);
      }
      int32x4_t low = vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3]));
      int32x4_t high = vpaddq_s32(vpaddq_s32(d[4], d[5]), vpaddq_s32(d[6], d[7]));
      if constexpr (W == Weights::Vbit) {
        const int32x4_t start = vdupq_n_s32(load<int32_t>(at + 36));
        low = vaddq_s32(low, start);
        high = vaddq_s32(high, start);
      }
      const float32x4_t x_scale = vdupq_n_f32(load<float>(at + 32));
      const auto scale = [&](uint32_t r) __attribute__((always_inline)) {
        return W == Weights::Q8 ? x_scale : vmulq_f32(vld1q_f32(scales + kBlockRows * g + row + r), x_scale);
      };
      acc.low = accumulate(low, scale(0), acc.low);
      acc.high = accumulate(high, scale(kLanes), acc.high);
    }
  }
  if constexpr (W == Weights::Q8) {
    acc.low = vmulq_f32(acc.low, vld1q_f32(block.row_scale + row));
    acc.high = vmulq_f32(acc.high, vld1q_f32(block.row_scale + row + kLanes));
  }
  return acc;
}

template <Weights W>
void multiply(const IntegerJob& job) {
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  int8_t* stage = reinterpret_cast<int8_t*>(scales + kBlockRows * w.groups);
  Block blocks[2];
  fill_block(job, 0, blocks[0]);
  for (uint64_t at = 0, turn = 0; at < job.count; at += kBlockRows, turn ^= 1) {
    const Block& block = blocks[turn];
    fill_block(job, at + kBlockRows < job.count ? at + kBlockRows : at, blocks[turn ^ 1]);
    if constexpr (!kTiles<W>) group_scales(w, block, scales);
    for (uint32_t row = 0; row < block.rows; row += kRows) {
      const uint8_t* const* next = row + kRows < block.rows ? block.codes + row + kRows : blocks[turn ^ 1].codes;
      const Sums sums = multiply_rows<W>(w, block, row, next, job.activations, scales, stage);
      float* y = job.y + at + row;
      const uint32_t rows = block.rows - row;
      store_outputs(y, rows, sums.low);
      if (rows > kLanes) store_outputs(y + kLanes, rows - kLanes, sums.high);
    }
  }
}

}  // namespace

void single(const IntegerJob& job) noexcept {
  for_weights(job.weight->weights, [&]<Weights W>() { multiply<W>(job); });
}

}  // namespace cortiq::kernels::neon
