// The definition of every product (docs/numerics.md, "Matrices"). The other kernels are held equal to this one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "codec/layout.h"
#include "kernels/jobs.h"
#include "kernels/overlay.h"
#include "kernels/planes.h"

namespace cortiq::kernels {
namespace {

using codec::kGroup;

// Activations of one token: [int8 · groups·32][f32 scale · groups].
constexpr uint64_t kGroupBytes = kGroup + 4;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t tile_limit(uint64_t) noexcept { return 1; }
uint64_t token_bytes(Flavour, uint64_t, uint64_t groups) noexcept { return kGroupBytes * groups; }
uint64_t scratch_bytes(const Planes& w, uint64_t) noexcept {
  return w.groups * (kGroup * sizeof(int16_t) + sizeof(float));
}

float quantise_group(const float* x, int8_t* q) noexcept {
  uint32_t top = 0;  // magnitudes of floats compare as their bits do, and NaN is above infinity
  for (uint64_t i = 0; i < kGroup; ++i) top = std::max(top, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF);
  const float m = std::bit_cast<float>(top);
  if (top >= 0x7F800000 || m < 0x1p-100f) {
    std::memset(q, 0, kGroup);
    return top >= 0x7F800000 ? kNan : 0;
  }
  const float inverse = 127.0f / m;
  for (uint64_t i = 0; i < kGroup; ++i) {
    // Adding and taking away 1.5·2^23 rounds to the nearest integer, ties to even.
    const float rounded = (x[i] * inverse + 12582912.0f) - 12582912.0f;
    q[i] = static_cast<int8_t>(std::min(127.0f, std::max(-127.0f, rounded)));
  }
  return m / 127.0f;
}

void quantise(const QuantiseJob& job) noexcept {
  uint8_t* scales = job.out + kGroup * job.groups;
  for (uint64_t g = job.first_group; g < job.last_group; ++g) {
    const float scale =
        quantise_group(job.x + kGroup * (g - job.first_group), reinterpret_cast<int8_t*>(job.out + kGroup * g));
    std::memcpy(scales + 4 * g, &scale, 4);
  }
}

float multiply_row(const Planes& w, const int16_t* codes, const float* scales, const uint8_t* token) noexcept {
  const int8_t* q = reinterpret_cast<const int8_t*>(token);
  const uint8_t* token_scales = token + kGroup * w.groups;
  float acc = 0;
  for (uint64_t g = 0; g < w.groups; ++g) {
    int32_t dot = 0;
    for (uint64_t i = kGroup * g; i < kGroup * (g + 1); ++i) dot += codes[i] * q[i];
    float scale;
    std::memcpy(&scale, token_scales + 4 * g, 4);
    acc = std::fmaf(static_cast<float>(dot), scales[g] * scale, acc);
  }
  return acc;
}

void integer(const IntegerJob& job) noexcept {
  const Planes& w = *job.weight;
  int16_t* codes = reinterpret_cast<int16_t*>(job.scratch);
  float* scales = reinterpret_cast<float*>(job.scratch + w.groups * kGroup * sizeof(int16_t));
  Block block;
  for (uint64_t at = 0; at < job.count; at += kBlockRows) {
    fill_block(job, at, block);
    for (uint32_t i = 0; i < block.rows; ++i) {
      unpack_row(w, block, i, codes, scales);
      for (uint32_t t = 0; t < job.tile_count; ++t) {
        const uint64_t token = job.tiles[t].first;
        float y = multiply_row(w, codes, scales, job.activations + token * job.token_bytes);
        if (w.weights == Weights::Q8) y *= block.row_scale[i];
        job.y[token * job.y_stride + at + i] = y == y ? y : kNan;
      }
    }
  }
  add_overlay<codec::load_half>(job);
}

float load(Format format, const uint8_t* row, uint64_t c) noexcept {
  if (format == Format::F32) return std::bit_cast<float>(codec::load32(row + 4 * c));
  const uint16_t bits = codec::load16(row + 2 * c);
  return format == Format::F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void floating(const FloatJob& job) noexcept {
  for (uint64_t t = 0; t < job.tokens; ++t) {
    const float* x = job.x + t * job.x_stride;
    for (uint32_t r = 0; r < job.count; ++r) {
      float lane[16] = {};
      for (uint64_t c = 0; c < job.cols; ++c) {
        lane[c % 16] = std::fmaf(load(job.format, job.rows[r], c), x[c], lane[c % 16]);
      }
      for (uint32_t half = 8; half != 0; half /= 2) {
        for (uint32_t l = 0; l < half; ++l) lane[l] += lane[l + half];
      }
      job.y[t * job.y_stride + r] = lane[0] == lane[0] ? lane[0] : kNan;
    }
  }
}

void widen(Format format, const uint8_t* from, uint64_t n, float* to) noexcept {
  for (uint64_t i = 0; i < n; ++i) to[i] = load(format, from, i);
}

}  // namespace

const KernelTable kScalarKernels = {tile_limit, token_bytes, scratch_bytes, quantise,
                                    integer,    floating,    widen,         nullptr};

}  // namespace cortiq::kernels
