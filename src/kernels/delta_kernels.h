#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace cortiq::kernels {

inline constexpr uint64_t kDeltaRows = 64;  ///< of a chunk

/// New rows of one key head and the value heads that use it, all within one chunk (pending + rows ≤ 64). Row i of an
/// input or output stands at + i·stride.
struct DeltaTask {
  float* state = nullptr;  ///< [heads][dk][dv]
  float* keys = nullptr;   ///< [64][dk]
  float* u = nullptr;      ///< [heads][64][dv]
  float* decay = nullptr;  ///< [heads][64]
  uint64_t heads = 0, dk = 0, dv = 0;
  uint64_t pending = 0, rows = 0;
  const float* q = nullptr;  ///< [dk], stride k_stride
  const float* k = nullptr;
  const float* v = nullptr;  ///< [heads][dv], stride v_stride
  float* o = nullptr;
  const float* g = nullptr;  ///< [heads], stride g_stride
  const float* beta = nullptr;
  uint64_t k_stride = 0, v_stride = 0, g_stride = 0;
  float* work = nullptr;  ///< delta_work(dk, dv) floats
};

inline constexpr uint64_t padded_to_lanes(uint64_t n) noexcept { return (n + 15) / 16 * 16; }
inline constexpr uint64_t delta_work(uint64_t dk, uint64_t dv) noexcept {
  const uint64_t wk = padded_to_lanes(dk), wv = padded_to_lanes(dv);
  return kDeltaRows * (4 * wk + 4 * wv + 4 * kDeltaRows) + wk * wv;
}

/// One instruction set's versions; all are equal bit for bit.
struct DeltaKernels {
  /// Outputs of the new rows; a chunk that becomes full is folded into the state.
  void (*advance)(const DeltaTask& task);
  /// Channels [from, to) of causal_conv_silu, `from` a multiple of 16.
  void (*convolve)(float* ring, const float* weight, uint64_t channels, uint64_t kernel, uint64_t from, uint64_t to,
                   uint64_t n, const float* x, float* y);
};

const DeltaKernels& delta_scalar() noexcept;
const DeltaKernels& delta_avx2() noexcept;
const DeltaKernels& delta_avx512() noexcept;
const DeltaKernels& delta_neon() noexcept;
const DeltaKernels& delta_kernels(Isa isa) noexcept;

}  // namespace cortiq::kernels
