// Matrix × several tokens: 16 rows are unpacked once to signed bytes, [group][8 quads of columns][16 rows][4], and meet
// 2 … 4 tokens at a time, eight rows each: 8 integer and 8 float accumulators. sdot takes a token's quad from a lane.
#include <utility>

#include "kernels/neon/kernels.h"
#include "kernels/neon/scales.h"

namespace cortiq::kernels::neon {
namespace {

constexpr uint64_t kPanelGroup = 32 * kBlockRows;  // bytes
constexpr uint64_t kQuad = 4 * kBlockRows;

template <Weights W>
void fill_panel(const Planes& w, const Block& block, int8_t* stage, int8_t* panel) {
  for (uint64_t first = 0; first < w.groups; first += kStageGroups) {
    const uint64_t last = first + kStageGroups < w.groups ? first + kStageGroups : w.groups;
    fill_stage<W>(block, 0, kBlockRows, first, last, stage);
    for (uint64_t g = first; g < last; ++g) {
      for (uint32_t row = 0; row < kBlockRows; row += kLanes) {
        uint32x4_t t[2][4];
#pragma GCC unroll 4
        for (uint32_t r = 0; r < kLanes; ++r) {
          const int8_t* staged = stage + kStageRow * (row + r) + 32 * (g - first);
          const Codes codes = group_codes<W>(w, block, row + r, g, staged);
          t[0][r] = vreinterpretq_u32_s8(codes.first);
          t[1][r] = vreinterpretq_u32_s8(codes.second);
        }
        for (uint32_t half = 0; half < 2; ++half) {
          transpose4(t[half]);
          for (uint32_t k = 0; k < 4; ++k) {
            vst1q_s8(panel + kPanelGroup * g + kQuad * (4 * half + k) + 4 * row, vreinterpretq_s8_u32(t[half][k]));
          }
        }
      }
    }
  }
}

/// f(0), f(1) … with constants: the lane of an instruction must be one.
template <class F, uint32_t... K>
CORTIQ_INLINE void for_each_constant(std::integer_sequence<uint32_t, K...>, F f) {
  (f(std::integral_constant<uint32_t, K>{}), ...);
}

/// Rows [row, row + 8) of the panel times T tokens: acc[2·t], acc[2·t + 1].
template <Weights W, uint32_t T>
void multiply_tile(const int8_t* panel, const float* scales, uint64_t groups, const uint8_t* token, uint32_t row,
                   float32x4_t* acc) {
  float32x4_t sum[2 * T];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < 2 * T; ++i) sum[i] = vdupq_n_f32(0);
  panel += 4 * row;
  scales += row;
  for (uint64_t g = 0; g < groups; ++g, panel += kPanelGroup, scales += kBlockRows, token += kTokenGroupBytes * T) {
    int8x16_t x[T][2];
    int32x4_t dot[2 * T];
#pragma GCC unroll 4
    for (uint32_t t = 0; t < T; ++t) {
      const int8_t* at = reinterpret_cast<const int8_t*>(token) + 32 * t;
      x[t][0] = vld1q_s8(at);
      x[t][1] = vld1q_s8(at + 16);
      const int32_t start = W == Weights::Vbit ? load<int32_t>(token + 36 * T + 4 * t) : 0;
      dot[2 * t] = dot[2 * t + 1] = vdupq_n_s32(start);
    }
    for_each_constant(
        std::make_integer_sequence<uint32_t, 8>{}, [&](auto k) __attribute__((always_inline)) {
          const int8x16_t w0 = vld1q_s8(panel + kQuad * k), w1 = vld1q_s8(panel + kQuad * k + 16);
#pragma GCC unroll 4
          for (uint32_t t = 0; t < T; ++t) {
            dot[2 * t] = vdotq_laneq_s32(dot[2 * t], w0, x[t][k / 4], k % 4);
            dot[2 * t + 1] = vdotq_laneq_s32(dot[2 * t + 1], w1, x[t][k / 4], k % 4);
          }
        });
#pragma GCC unroll 4
    for (uint32_t t = 0; t < T; ++t) {
      const float32x4_t x_scale = vdupq_n_f32(load<float>(token + 32 * T + 4 * t));
      const auto scale = [&](uint32_t r) __attribute__((always_inline)) {
        return W == Weights::Q8 ? x_scale : vmulq_f32(vld1q_f32(scales + r), x_scale);
      };
      sum[2 * t] = accumulate(dot[2 * t], scale(0), sum[2 * t]);
      sum[2 * t + 1] = accumulate(dot[2 * t + 1], scale(kLanes), sum[2 * t + 1]);
    }
  }
#pragma GCC unroll 8
  for (uint32_t i = 0; i < 2 * T; ++i) acc[i] = sum[i];
}

template <Weights W>
void multiply_tile(const int8_t* panel, const float* scales, uint64_t groups, const uint8_t* token, uint32_t tokens,
                   uint32_t row, float32x4_t* acc) {
  switch (tokens) {
    case 2:
      return multiply_tile<W, 2>(panel, scales, groups, token, row, acc);
    case 3:
      return multiply_tile<W, 3>(panel, scales, groups, token, row, acc);
    default:
      return multiply_tile<W, 4>(panel, scales, groups, token, row, acc);
  }
}

template <Weights W>
void multiply(const IntegerJob& job) {
  const Planes& w = *job.weight;
  float* scales = reinterpret_cast<float*>(job.scratch);
  int8_t* panel = reinterpret_cast<int8_t*>(scales + kBlockRows * w.groups);
  int8_t* stage = panel + kPanelGroup * w.groups;
  Block block;
  for (uint64_t at = 0; at < job.count; at += kBlockRows) {
    fill_block(job, at, block);
    group_scales(w, block, scales);
    fill_panel<W>(w, block, stage, panel);
    for (uint32_t i = 0; i < job.tile_count; ++i) {
      const Tile& tile = job.tiles[i];
      const uint8_t* token = job.activations + tile.first * job.token_bytes;
      for (uint32_t row = 0; row < block.rows; row += 2 * kLanes) {
        float32x4_t acc[8];
        multiply_tile<W>(panel, scales, w.groups, token, tile.tokens, row, acc);
        for (uint32_t t = 0; t < tile.tokens; ++t) {
          for (uint32_t r = row; r < block.rows && r < row + 2 * kLanes; r += kLanes) {
            float32x4_t y = acc[2 * t + (r - row) / kLanes];
            if constexpr (W == Weights::Q8) y = vmulq_f32(y, vld1q_f32(block.row_scale + r));
            store_outputs(job.y + (tile.first + t) * job.y_stride + at + r, block.rows - r, y);
          }
        }
      }
    }
  }
}

}  // namespace

void panels(const IntegerJob& job) noexcept {
  for_weights(job.weight->weights, [&]<Weights W>() { multiply<W>(job); });
}

}  // namespace cortiq::kernels::neon
