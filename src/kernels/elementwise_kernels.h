#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace cortiq::kernels {

/// One instruction set's versions of elementwise.h and rope.h; all are equal bit for bit.
struct ElementwiseKernels {
  void (*exp)(float* x, uint64_t n);
  void (*sigmoid)(float* x, uint64_t n);
  void (*softplus)(float* x, uint64_t n);
  void (*tanh)(float* x, uint64_t n);
  void (*rms_norm)(const float* x, const float* weight, uint64_t width, double eps, bool one_plus, float* y);
  void (*l2_norm)(const float* x, uint64_t width, double eps, float scale, float* y);
  void (*add)(float* x, const float* y, uint64_t n);
  void (*add_scaled)(float* x, const float* y, float s, uint64_t n);
  void (*scale)(float* x, float s, uint64_t n);
  void (*multiply)(float* x, const float* y, uint64_t n);
  void (*silu_multiply)(float* gate, const float* up, uint64_t n);
  void (*gelu_tanh_multiply)(float* gate, const float* up, uint64_t n);
  void (*silu)(float* x, uint64_t n);
  void (*sigmoid_gate)(float* x, const float* gate, uint64_t n);
  void (*softplus_gate)(float* x, const float* gate, uint64_t n);
  void (*soft_cap)(float* x, float cap, uint64_t n);
  void (*softmax)(float* x, uint64_t n);
  uint64_t (*argmax)(const float* x, uint64_t n);
  void (*rotate)(float* x, uint32_t heads, uint32_t head_dim, uint32_t half, const float* cos, const float* sin);
};

const ElementwiseKernels& elementwise_scalar() noexcept;
const ElementwiseKernels& elementwise_avx2() noexcept;
const ElementwiseKernels& elementwise_avx512() noexcept;
const ElementwiseKernels& elementwise_neon() noexcept;
const ElementwiseKernels& elementwise_kernels(Isa isa) noexcept;

}  // namespace cortiq::kernels
