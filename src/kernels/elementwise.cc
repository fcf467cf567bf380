#include "kernels/elementwise.h"

#include "kernels/elementwise_kernels.h"

namespace cortiq::kernels {
namespace {

const ElementwiseKernels& active() noexcept {
  static const ElementwiseKernels& kernels = elementwise_kernels(active_isa());
  return kernels;
}

}  // namespace

const ElementwiseKernels& elementwise_kernels(Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa >= Isa::Avx512) return elementwise_avx512();
  if (isa >= Isa::Avx2) return elementwise_avx2();
#elif defined(__aarch64__)
  if (isa == Isa::Neon) return elementwise_neon();
#endif
  (void)isa;
  return elementwise_scalar();
}

float exp_f32(float x) noexcept {
  active().exp(&x, 1);
  return x;
}
float sigmoid_f32(float x) noexcept {
  active().sigmoid(&x, 1);
  return x;
}
float softplus_f32(float x) noexcept {
  active().softplus(&x, 1);
  return x;
}
float tanh_f32(float x) noexcept {
  active().tanh(&x, 1);
  return x;
}

void rms_norm(const float* x, const float* weight, uint64_t width, double eps, bool one_plus, float* y) noexcept {
  active().rms_norm(x, weight, width, eps, one_plus, y);
}
void l2_norm(const float* x, uint64_t width, double eps, float scale, float* y) noexcept {
  active().l2_norm(x, width, eps, scale, y);
}

void add(float* x, const float* y, uint64_t n) noexcept { active().add(x, y, n); }
void add_scaled(float* x, const float* y, float s, uint64_t n) noexcept { active().add_scaled(x, y, s, n); }
void scale(float* x, float s, uint64_t n) noexcept { active().scale(x, s, n); }
void multiply(float* x, const float* y, uint64_t n) noexcept { active().multiply(x, y, n); }

void silu_multiply(float* gate, const float* up, uint64_t n) noexcept { active().silu_multiply(gate, up, n); }
void gelu_tanh_multiply(float* gate, const float* up, uint64_t n) noexcept { active().gelu_tanh_multiply(gate, up, n); }
void silu(float* x, uint64_t n) noexcept { active().silu(x, n); }
void sigmoid_gate(float* x, const float* gate, uint64_t n) noexcept { active().sigmoid_gate(x, gate, n); }
void softplus_gate(float* x, const float* gate, uint64_t n) noexcept { active().softplus_gate(x, gate, n); }
void soft_cap(float* x, float cap, uint64_t n) noexcept { active().soft_cap(x, cap, n); }

void softmax(float* x, uint64_t n) noexcept { active().softmax(x, n); }
uint64_t argmax(const float* x, uint64_t n) noexcept { return active().argmax(x, n); }

}  // namespace cortiq::kernels
