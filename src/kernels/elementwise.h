#pragma once
#include <cstdint>
#include <span>

// Functions between the matrices, each with one definition for all instruction sets (decisions 3): f32 polynomials of
// our own, the same operations in the same order in the scalar and the vector versions, so results are equal bit for
// bit. All are noexcept and run on the calling thread; callers split rows.
namespace cortiq::kernels {

float exp_f32(float x) noexcept;
float sigmoid_f32(float x) noexcept;
float softplus_f32(float x) noexcept;  ///< max(x,0) + log1p(exp(−|x|))
float tanh_f32(float x) noexcept;

/// y = x̂·w, or x̂·(1+w) when one_plus; x̂ = x / sqrt(mean(x²) + eps). Squares summed in f64 over 8 lanes (decisions 3).
/// y may be x.
void rms_norm(const float* x, const float* weight, uint64_t width, double eps, bool one_plus, float* y) noexcept;
/// x / sqrt(Σx² + eps), times scale (§8 of the engine facts).
void l2_norm(const float* x, uint64_t width, double eps, float scale, float* y) noexcept;

void add(float* x, const float* y, uint64_t n) noexcept;                  ///< x += y
void add_scaled(float* x, const float* y, float s, uint64_t n) noexcept;  ///< x = fma(s, y, x)
void scale(float* x, float s, uint64_t n) noexcept;
void multiply(float* x, const float* y, uint64_t n) noexcept;  ///< x *= y

void silu_multiply(float* gate, const float* up, uint64_t n) noexcept;       ///< gate = silu(gate)·up
void gelu_tanh_multiply(float* gate, const float* up, uint64_t n) noexcept;  ///< gate = gelu_tanh(gate)·up
void silu(float* x, uint64_t n) noexcept;
void sigmoid_gate(float* x, const float* gate, uint64_t n) noexcept;   ///< x *= sigmoid(gate)
void softplus_gate(float* x, const float* gate, uint64_t n) noexcept;  ///< x *= softplus(gate)
void soft_cap(float* x, float cap, uint64_t n) noexcept;               ///< x = cap·tanh(x/cap)

/// In place over n scores: max-subtracted, f32, summed in 16 lanes and the tree of decisions 1.
void softmax(float* x, uint64_t n) noexcept;
/// Index of the largest value, the lowest on a tie; NaN never wins. n ≥ 1.
uint64_t argmax(const float* x, uint64_t n) noexcept;

}  // namespace cortiq::kernels
