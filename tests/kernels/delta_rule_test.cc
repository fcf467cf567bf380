#include "kernels/delta_rule.h"

#include <algorithm>

#include "kernels/compare.h"
#include "kernels/delta_kernels.h"
#include "kernels/elementwise.h"

namespace cortiq::kernels {
namespace {

struct Geometry {
  uint32_t k_heads, v_heads, dk, dv;
};

// Inputs of n rows, as the layer gives them: q, k normalised, decay negative, beta in (0, 1).
struct Inputs {
  Inputs(const Geometry& shape, uint64_t count, uint64_t seed, float strength = 1) : g(shape), n(count) {
    q = normal(n * g.k_heads * g.dk, seed);
    k = normal(q.size(), seed + 1);
    v = normal(n * g.v_heads * g.dv, seed + 2);
    for (uint64_t i = 0; i < n * g.k_heads; ++i) {
      l2_norm(q.data() + i * g.dk, g.dk, 1e-6, 0.3f, q.data() + i * g.dk);
      l2_norm(k.data() + i * g.dk, g.dk, 1e-6, 1, k.data() + i * g.dk);
    }
    decay = normal(n * g.v_heads, seed + 3);
    beta = normal(n * g.v_heads, seed + 4);
    for (float& x : decay) x = -strength * softplus_f32(x);
    for (float& x : beta) x = sigmoid_f32(x);
  }
  Geometry g;
  uint64_t n;
  std::vector<float> q, k, v, decay, beta;
};

// A state with memory of its own, filled with NaN where a new sequence need not set values.
class Sequence {
 public:
  explicit Sequence(const Geometry& g)
      : state_(size_t{g.v_heads} * g.dk * g.dv, 0.0f),
        k_(size_t{g.k_heads} * 64 * g.dk, std::numeric_limits<float>::quiet_NaN()),
        u_(size_t{g.v_heads} * 64 * g.dv, std::numeric_limits<float>::quiet_NaN()),
        decay_(size_t{g.v_heads} * 64, std::numeric_limits<float>::quiet_NaN()) {
    rule_ = {state_.data(), k_.data(), u_.data(), decay_.data(), g.k_heads, g.v_heads, g.dk, g.dv, 0};
  }
  std::vector<float> run(const Inputs& in, uint64_t from, uint64_t count, Isa isa, size_t threads) {
    const Geometry& g = in.g;
    const uint64_t kw = g.k_heads * g.dk, vw = g.v_heads * g.dv;
    std::vector<float> o(count * vw, 7.0f);
    ThreadPool pool(threads);
    Scratch scratch;
    delta_rule(rule_, count, in.q.data() + from * kw, in.k.data() + from * kw, in.v.data() + from * vw,
               in.decay.data() + from * g.v_heads, in.beta.data() + from * g.v_heads, o.data(), delta_kernels(isa),
               scratch, pool);
    return o;
  }
  void drop(uint32_t rows) { rule_.pending -= rows; }
  uint32_t pending() const { return rule_.pending; }
  const std::vector<float>& state() const { return state_; }

 private:
  std::vector<float> state_, k_, u_, decay_;
  DeltaState rule_;
};

// ENGINE_FACTS §8 step 6 in double.
std::vector<double> recurrence(const Inputs& in, std::vector<double>* last = nullptr) {
  const Geometry& g = in.g;
  std::vector<double> s(size_t{g.v_heads} * g.dk * g.dv), o(in.n * g.v_heads * g.dv);
  for (uint64_t t = 0; t < in.n; ++t) {
    for (uint32_t h = 0; h < g.v_heads; ++h) {
      const uint64_t kh = h / (g.v_heads / g.k_heads);
      const float* q = in.q.data() + (t * g.k_heads + kh) * g.dk;
      const float* k = in.k.data() + (t * g.k_heads + kh) * g.dk;
      const float* v = in.v.data() + (t * g.v_heads + h) * g.dv;
      double* state = s.data() + size_t{h} * g.dk * g.dv;
      const double decay = std::exp(static_cast<double>(in.decay[t * g.v_heads + h])),
                   beta = in.beta[t * g.v_heads + h];
      for (size_t i = 0; i < size_t{g.dk} * g.dv; ++i) state[i] *= decay;
      for (uint32_t d = 0; d < g.dv; ++d) {
        double r = 0;
        for (uint32_t c = 0; c < g.dk; ++c) r += state[c * g.dv + d] * k[c];
        const double delta = beta * (v[d] - r);
        double out = 0;
        for (uint32_t c = 0; c < g.dk; ++c) {
          state[c * g.dv + d] += k[c] * delta;
          out += state[c * g.dv + d] * q[c];
        }
        o[(t * g.v_heads + h) * g.dv + d] = out;
      }
    }
  }
  if (last != nullptr) *last = s;
  return o;
}

const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> list = {
      {1, 1, 16, 16}, {2, 4, 128, 128}, {1, 3, 20, 36}, {3, 3, 2, 2}, {1, 2, 64, 32}};
  return list;
}

TEST(DeltaRule, agrees_with_the_recurrence_in_double) {
  for (const Geometry& g : geometries()) {
    for (const float strength : {0.01f, 1.0f, 20.0f}) {
      for (const uint64_t n : {1u, 3u, 63u, 64u, 65u, 150u, 200u}) {
        const Inputs in(g, n, n, strength);
        std::vector<double> want_state;
        const std::vector<double> want = recurrence(in, &want_state);
        Sequence sequence(g);
        const std::vector<float> got = sequence.run(in, 0, n, available_isas().back(), 1);
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], 5e-6) << g.dk << "x" << g.dv << ", " << n << " rows, strength " << strength;
        }
        if (n % 64 != 0) continue;
        for (size_t i = 0; i < want_state.size(); ++i) ASSERT_NEAR(sequence.state()[i], want_state[i], 5e-6);
      }
    }
  }
}

TEST(DeltaRule, prefill_decoding_and_verification_give_the_same_bits) {
  for (const Geometry& g : geometries()) {
    const Inputs in(g, 200, 5);
    Sequence whole(g);
    const std::vector<float> want = whole.run(in, 0, in.n, Isa::Scalar, 1);
    for (const Isa isa : available_isas()) {
      for (const uint64_t batch : {1u, 2u, 3u, 5u, 60u, 64u, 100u, 200u}) {
        if (isa == Isa::Scalar && batch != 3 && batch != 100) continue;  // slow, and one source for all
        Sequence split(g);
        std::vector<float> got;
        for (uint64_t t = 0; t < in.n; t += batch) {
          const std::vector<float> o = split.run(in, t, std::min(batch, in.n - t), isa, 1 + batch % 3);
          got.insert(got.end(), o.begin(), o.end());
        }
        ASSERT_TRUE(same(want, got)) << name(isa) << ", batches of " << batch << ", " << g.dk << "x" << g.dv;
        ASSERT_TRUE(same(whole.state(), split.state()));
        ASSERT_EQ(split.pending(), 200 % 64u);
      }
    }
  }
}

TEST(DeltaRule, rejected_drafts_leave_no_trace) {
  const Geometry g{2, 4, 32, 48};
  const Inputs in(g, 50, 6), drafts(g, 55, 7);
  Sequence plain(g), speculating(g);
  for (uint64_t t = 0; t < 50; ++t) {
    const std::vector<float> want = plain.run(in, t, 1, active_isa(), 1);
    speculating.run(drafts, t, 5, active_isa(), 1);
    speculating.drop(5);
    ASSERT_TRUE(same(want, speculating.run(in, t, 1, active_isa(), 1))) << t;
  }
}

TEST(DeltaRule, broken_input_does_not_reach_earlier_rows_or_other_heads) {
  const Geometry g{2, 2, 16, 16};
  Inputs in(g, 70, 8);
  Sequence clean(g), broken(g);
  const std::vector<float> want = clean.run(in, 0, 70, active_isa(), 1);
  in.v[41 * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = broken.run(in, 0, 70, active_isa(), 1);
  for (size_t t = 0; t < 70; ++t) {
    for (size_t d = 0; d < 32; ++d) {
      if (t >= 41 && d == 3) {
        EXPECT_TRUE(std::isnan(got[t * 32 + d])) << t;
      } else {
        EXPECT_TRUE(same(want[t * 32 + d], got[t * 32 + d])) << t << " " << d;
      }
    }
  }
}

// f(n, s)[i] = sin(0.7·i + s) of ENGINE_FACTS §23.
std::vector<float> f(size_t n, double s) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + s));
  return x;
}

std::vector<float> product(const std::vector<float>& w, const float* x, size_t columns) {
  std::vector<float> y;
  for (size_t r = 0; r < w.size() / columns; ++r) {
    double sum = 0;
    for (size_t c = 0; c < columns; ++c) sum += static_cast<double>(w[r * columns + c]) * x[c];
    y.push_back(static_cast<float>(sum));
  }
  return y;
}

TEST(DeltaRule, layer_of_the_facts) {  // ENGINE_FACTS §23, "GDN"
  const std::vector<float> w_qkv = f(32, .1), w_z = f(16, .2), w_b = f(8, .3), w_a = f(8, .4), conv = f(16, .5),
                           w_out = f(16, .6), x = f(12, .9);
  const float a_log[2] = {0, .5f}, dt_bias[2] = {.1f, -.2f}, norm[2] = {1, 1.5f};
  const Geometry g{1, 2, 2, 2};
  Inputs in(g, 3, 1);
  std::vector<float> u, c(24), ring(8, 0.0f);
  for (size_t t = 0; t < 3; ++t) {
    const std::vector<float> row = product(w_qkv, x.data() + 4 * t, 4);
    u.insert(u.end(), row.begin(), row.end());
  }
  ThreadPool pool(1);
  causal_conv_silu(ring.data(), conv.data(), 8, 2, 3, u.data(), c.data(), pool);
  EXPECT_TRUE(same({u.data() + 16, 8}, ring));
  for (size_t t = 0; t < 3; ++t) {
    l2_norm(c.data() + 8 * t, 2, 1e-6, 1 / std::sqrt(2.0f), in.q.data() + 2 * t);
    l2_norm(c.data() + 8 * t + 2, 2, 1e-6, 1, in.k.data() + 2 * t);
    std::copy_n(c.data() + 8 * t + 4, 4, in.v.data() + 4 * t);
    const std::vector<float> b = product(w_b, x.data() + 4 * t, 4), a = product(w_a, x.data() + 4 * t, 4);
    for (size_t h = 0; h < 2; ++h) {
      in.decay[2 * t + h] = -exp_f32(a_log[h]) * softplus_f32(a[h] + dt_bias[h]);
      in.beta[2 * t + h] = sigmoid_f32(b[h]);
    }
  }
  Sequence sequence(g);
  std::vector<float> o = sequence.run(in, 0, 3, active_isa(), 1);
  const double want[3][4] = {{0.471978676, -0.290645131, 0.075725995, 0.147943682},
                             {2.588977640, -1.984340331, 1.150401942, -0.183528490},
                             {0.159656450, 0.938147812, -1.927544105, 2.694202424}};
  for (size_t t = 0; t < 3; ++t) {
    std::vector<float> z = product(w_z, x.data() + 4 * t, 4);
    for (size_t h = 0; h < 2; ++h) rms_norm(&o[4 * t + 2 * h], norm, 2, 1e-6, false, &o[4 * t + 2 * h]);
    silu(z.data(), 4);
    multiply(z.data(), &o[4 * t], 4);
    const std::vector<float> y = product(w_out, z.data(), 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[t][i], 2e-6) << t << " " << i;
  }
}

TEST(CausalConv, splits_and_instruction_sets_give_the_scalar_bits) {
  for (const uint32_t kernel : {1u, 2u, 4u, 9u}) {
    for (const uint32_t channels : {8u, 16u, 37u, 600u}) {
      constexpr uint64_t kRows = 23;
      const std::vector<float> x = normal(kRows * channels, kernel), w = normal(size_t{channels} * kernel, channels);
      std::vector<float> want(x.size()), want_ring((kernel - 1) * channels, 0.0f);
      delta_scalar().convolve(want_ring.data(), w.data(), channels, kernel, 0, channels, kRows, x.data(), want.data());
      for (uint64_t t = 0; t < kRows; ++t) {
        for (uint32_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (uint32_t j = 0; j < kernel; ++j) {
            if (t + j + 1 >= kernel)
              sum += static_cast<double>(w[c * kernel + j]) * x[(t + j + 1 - kernel) * channels + c];
          }
          ASSERT_NEAR(want[t * channels + c], sum / (1 + std::exp(-sum)), 5e-6);
        }
      }
      for (const Isa isa : available_isas()) {
        for (const uint64_t batch : {1u, 2u, 5u, 23u}) {
          std::vector<float> got(x.size()), ring(want_ring.size(), 0.0f);
          for (uint64_t t = 0; t < kRows; t += batch) {
            delta_kernels(isa).convolve(ring.data(), w.data(), channels, kernel, 0, channels,
                                        std::min(batch, kRows - t), x.data() + t * channels, got.data() + t * channels);
          }
          ASSERT_TRUE(same(want, got)) << name(isa) << ", kernel " << kernel << ", " << channels << " channels";
          ASSERT_TRUE(same(want_ring, ring));
        }
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::kernels
