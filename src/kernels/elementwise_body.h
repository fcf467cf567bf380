#pragma once
#include "kernels/elementwise_kernels.h"
#include "kernels/functions_body.h"

// The loops of elementwise.h over Lanes; compiled once per instruction set.
namespace cortiq::kernels {
namespace {

// x[i] = f(x[i]) and x[i] = f(x[i], y[i]). A last vector of fewer than 16 values is padded with zeros and stored in
// part.
template <class F>
inline void transform(float* x, uint64_t n, F f) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, f(load(x + i)));
  if (i < n) store_part(x + i, f(load_part(x + i, n - i)), n - i);
}
template <class F>
inline void transform(float* x, const float* y, uint64_t n, F f) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, f(load(x + i), load(y + i)));
  if (i < n) store_part(x + i, f(load_part(x + i, n - i), load_part(y + i, n - i)), n - i);
}

double sum_of_squares(const float* x, uint64_t n) noexcept {
  Doubles acc = zero_doubles();
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) acc = add_squares(acc, x + i);
  if (i < n) {
    float last[8] = {};
    for (uint64_t k = i; k < n; ++k) last[k - i] = x[k];
    acc = add_squares(acc, last);
  }
  return sum(acc);
}

void rms_norm_body(const float* x, const float* weight, uint64_t width, double eps, bool one_plus, float* y) noexcept {
  const double mean = sum_of_squares(x, width) / static_cast<double>(width);
  const Lanes inverse = set(static_cast<float>(1.0 / square_root(mean + eps)));
  const Lanes offset = set(one_plus ? 1.0f : -0.0f);  // −0 + w is w for every w
  uint64_t i = 0;
  for (; i + 16 <= width; i += 16) store(y + i, load(x + i) * inverse * (offset + load(weight + i)));
  if (i < width) {
    const uint64_t n = width - i;
    store_part(y + i, load_part(x + i, n) * inverse * (offset + load_part(weight + i, n)), n);
  }
}

void l2_norm_body(const float* x, uint64_t width, double eps, float scale, float* y) noexcept {
  const Lanes inverse = set(static_cast<float>(1.0 / square_root(sum_of_squares(x, width) + eps)));
  const Lanes factor = set(scale);
  uint64_t i = 0;
  for (; i + 16 <= width; i += 16) store(y + i, load(x + i) * inverse * factor);
  if (i < width) store_part(y + i, load_part(x + i, width - i) * inverse * factor, width - i);
}

void softmax_body(float* x, uint64_t n) noexcept {
  const Lanes lowest = set(-__builtin_inff());
  const auto padded = [&](uint64_t i) {
    return i + 16 <= n ? load(x + i) : select(range(0, static_cast<int>(n - i)), load_part(x + i, n - i), lowest);
  };
  Lanes top = lowest;
  for (uint64_t i = 0; i < n; i += 16) top = max(padded(i), top);
  const Lanes most = set(largest(top));
  Lanes total = set(0.0f);
  for (uint64_t i = 0; i < n; i += 16) {
    const Lanes e = exp(padded(i) - most);
    total = total + e;
    if (i + 16 <= n) {
      store(x + i, e);
    } else {
      store_part(x + i, e, n - i);
    }
  }
  const Lanes divisor = set(sum(total));
  transform(x, n, [&](Lanes e) { return e / divisor; });
}

uint64_t argmax_body(const float* x, uint64_t n) noexcept {
  constexpr uint64_t kBlock = 4096;  // only one block is searched for the place of its largest value
  const Lanes lowest = set(-__builtin_inff());
  float most = -__builtin_inff();
  uint64_t at = 0;
  for (uint64_t begin = 0; begin < n; begin += kBlock) {
    const uint64_t end = begin + kBlock < n ? begin + kBlock : n;
    Lanes top = lowest;
    uint64_t i = begin;
    for (; i + 16 <= end; i += 16) top = max(load(x + i), top);  // a NaN on the left loses
    if (i < end) top = max(select(range(0, static_cast<int>(end - i)), load_part(x + i, end - i), lowest), top);
    if (largest(top) > most) {
      most = largest(top);
      at = begin;
    }
  }
  for (uint64_t i = at; i < n; ++i) {
    if (x[i] == most) return i;
  }
  return 0;
}

// Half-split pairs (ENGINE_FACTS §5.1): (a, b) → (a·cos − b·sin, a·sin + b·cos).
void rotate_body(float* x, uint32_t heads, uint32_t head_dim, uint32_t half, const float* cosine,
                 const float* sine) noexcept {
  for (uint32_t h = 0; h < heads; ++h, x += head_dim) {
    for (uint32_t i = 0; i < half; i += 16) {
      const uint32_t n = half - i < 16 ? half - i : 16;
      const Lanes a = load_part(x + i, n), b = load_part(x + half + i, n);
      const Lanes c = load_part(cosine + i, n), s = load_part(sine + i, n);
      store_part(x + i, fnma(b, s, a * c), n);
      store_part(x + half + i, fma(a, s, b * c), n);
    }
  }
}

constexpr ElementwiseKernels kElementwise = {
    .exp = [](float* x, uint64_t n) { transform(x, n, [](Lanes a) { return exp(a); }); },
    .sigmoid = [](float* x, uint64_t n) { transform(x, n, [](Lanes a) { return sigmoid(a); }); },
    .softplus = [](float* x, uint64_t n) { transform(x, n, [](Lanes a) { return softplus(a); }); },
    .tanh = [](float* x, uint64_t n) { transform(x, n, [](Lanes a) { return tanh(a); }); },
    .rms_norm = rms_norm_body,
    .l2_norm = l2_norm_body,
    .add = [](float* x, const float* y, uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return a + b; }); },
    .add_scaled =
        [](float* x, const float* y, float s, uint64_t n) {
          transform(x, y, n, [factor = set(s)](Lanes a, Lanes b) { return fma(factor, b, a); });
        },
    .scale = [](float* x, float s, uint64_t n) { transform(x, n, [factor = set(s)](Lanes a) { return a * factor; }); },
    .multiply = [](float* x, const float* y,
                   uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return a * b; }); },
    .silu_multiply = [](float* x, const float* y,
                        uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return silu(a) * b; }); },
    .gelu_tanh_multiply = [](float* x, const float* y,
                             uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return gelu_tanh(a) * b; }); },
    .silu = [](float* x, uint64_t n) { transform(x, n, [](Lanes a) { return silu(a); }); },
    .sigmoid_gate = [](float* x, const float* y,
                       uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return a * sigmoid(b); }); },
    .softplus_gate = [](float* x, const float* y,
                        uint64_t n) { transform(x, y, n, [](Lanes a, Lanes b) { return a * softplus(b); }); },
    .soft_cap = [](float* x, float cap, uint64_t n) { transform(x, n, [cap](Lanes a) { return capped(a, cap); }); },
    .softmax = softmax_body,
    .argmax = argmax_body,
    .rotate = rotate_body,
};

}  // namespace
}  // namespace cortiq::kernels
