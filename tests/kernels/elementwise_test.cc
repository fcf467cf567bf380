#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/compare.h"
#include "kernels/elementwise_kernels.h"

namespace cortiq::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the f32 nearest to the true value.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  const float nearest = static_cast<float>(want);
  if (std::isinf(nearest)) return got == nearest ? 0 : (std::isinf(std::nextafter(got, nearest)) ? 1 : 1e9);
  const int exponent = std::max(nearest == 0 ? -126 : std::ilogb(nearest), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

using Unary = void (*)(float*, uint64_t);

double worst(Unary f, double (*definition)(double), float from, float to, int steps = 400000) {
  std::vector<float> x(static_cast<size_t>(steps)), y;
  for (int i = 0; i < steps; ++i)
    x[static_cast<size_t>(i)] = from + (to - from) * static_cast<float>(i) / static_cast<float>(steps);
  y = x;
  f(y.data(), y.size());
  double result = 0;
  for (size_t i = 0; i < x.size(); ++i) result = std::max(result, ulps(y[i], definition(static_cast<double>(x[i]))));
  return result;
}

TEST(Elementwise, functions_keep_to_two_units_of_the_last_place) {
  const ElementwiseKernels& k = elementwise_kernels(available_isas().back());
  const auto exponential = [](double x) { return std::exp(x); };
  const auto logistic = [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); };
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  const auto tangent = [](double x) { return std::tanh(x); };
  EXPECT_LT(worst(k.exp, exponential, -87, 88.7f), 1.2);
  EXPECT_LT(worst(k.exp, exponential, -104, -87), 1.2);  // subnormal results round once
  EXPECT_LT(worst(k.exp, exponential, -0.5f, 0.5f), 1.2);
  EXPECT_LT(worst(k.sigmoid, logistic, -90, 90), 3);
  EXPECT_LT(worst(k.sigmoid, logistic, -1, 1), 3);
  EXPECT_LT(worst(k.softplus, softplus, -90, 90), 3);
  EXPECT_LT(worst(k.softplus, softplus, -2, 2), 3);
  EXPECT_LT(worst(k.tanh, tangent, -12, 12), 3);
  EXPECT_LT(worst(k.tanh, tangent, -1, 1), 3);
  EXPECT_LT(worst(k.tanh, tangent, -1e-3f, 1e-3f), 3);
  EXPECT_LT(worst(
                k.silu, [](double x) { return x / (1 + std::exp(-x)); }, -30, 30),
            4);
}

TEST(Elementwise, gelu_is_accurate_where_it_is_not_tiny) {
  const auto gelu = [](double x) {
    const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * inner));
  };
  for (float x = -12; x < 12; x += 0.0013f) {
    float y = x;
    const float one = 1;
    gelu_tanh_multiply(&y, &one, 1);
    // An error of one unit in the exponent 2u is |2u| units in the result.
    const double inner = std::abs(1.6 * (x + 0.045 * x * x * x));
    ASSERT_LT(ulps(y, gelu(x)), 4 + 2 * (x < 0 ? inner : 0)) << x;
    ASSERT_NEAR(y, gelu(x), 3e-7 * std::max(1.0, std::abs(gelu(x))));
  }
}

TEST(Elementwise, limits_are_reached_and_nan_stays) {
  EXPECT_EQ(exp_f32(-kInfinity), 0);
  EXPECT_EQ(exp_f32(kInfinity), kInfinity);
  EXPECT_EQ(exp_f32(0), 1);
  EXPECT_EQ(exp_f32(-0.0f), 1);
  EXPECT_EQ(exp_f32(-1e30f), 0);
  EXPECT_EQ(exp_f32(1e30f), kInfinity);
  EXPECT_EQ(exp_f32(-103.0f), std::exp(-103.0f));
  EXPECT_EQ(sigmoid_f32(0), 0.5f);
  EXPECT_EQ(sigmoid_f32(kInfinity), 1);
  EXPECT_EQ(sigmoid_f32(-kInfinity), 0);
  EXPECT_EQ(softplus_f32(kInfinity), kInfinity);
  EXPECT_EQ(softplus_f32(-kInfinity), 0);
  EXPECT_EQ(softplus_f32(100), 100);
  EXPECT_EQ(tanh_f32(kInfinity), 1);
  EXPECT_EQ(tanh_f32(-kInfinity), -1);
  EXPECT_TRUE(same(tanh_f32(-0.0f), -0.0f));
  EXPECT_EQ(tanh_f32(1e-30f), 1e-30f);
  for (const float nan : {kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(exp_f32(nan)));
    EXPECT_TRUE(std::isnan(sigmoid_f32(nan)));
    EXPECT_TRUE(std::isnan(softplus_f32(nan)));
    EXPECT_TRUE(std::isnan(tanh_f32(nan)));
  }
}

// Every loop at every length up to two vectors and a part, so that tails are met, on ordinary and on extreme values.
TEST(Elementwise, every_instruction_set_gives_the_scalar_bits) {
  const ElementwiseKernels& scalar = elementwise_scalar();
  for (const Isa isa : vector_isas()) {
    const ElementwiseKernels& k = elementwise_kernels(isa);
    std::vector<size_t> lengths;
    for (size_t n = 1; n <= 50; ++n) lengths.push_back(n);
    lengths.push_back(5000);
    for (const size_t n : lengths) {
      for (int kind = 0; kind < 3; ++kind) {
        SCOPED_TRACE(testing::Message() << name(isa) << ", " << n << " values, kind " << kind);
        std::vector<float> x = kind == 0 ? normal(n, n, 4) : any_bits(n, n);
        std::vector<float> y = kind == 0 ? normal(n, n + 1) : any_bits(n, n + 1);
        if (kind == 2) {
          const std::vector<float> e = edges();
          for (size_t i = 0; i < n; ++i) x[i] = e[(i * 7 + n) % e.size()];
          for (size_t i = 0; i < n; ++i) y[i] = e[(i * 11 + 3 * n) % e.size()];
        }
        // Both versions work on a copy of x with a sentinel behind it, which nothing may touch.
        const auto compare = [&](auto run) {
          std::vector<float> a = x, b = x;
          a.push_back(7), b.push_back(7);
          run(scalar, a.data());
          run(k, b.data());
          EXPECT_TRUE(same(a, b));
          EXPECT_EQ(b.back(), 7);
        };
        using K = const ElementwiseKernels&;
        compare([&](K e, float* z) { e.exp(z, n); });
        compare([&](K e, float* z) { e.sigmoid(z, n); });
        compare([&](K e, float* z) { e.softplus(z, n); });
        compare([&](K e, float* z) { e.tanh(z, n); });
        compare([&](K e, float* z) { e.silu(z, n); });
        compare([&](K e, float* z) { e.softmax(z, n); });
        compare([&](K e, float* z) { e.soft_cap(z, 30, n); });
        compare([&](K e, float* z) { e.scale(z, 0.3f, n); });
        compare([&](K e, float* z) { e.add(z, y.data(), n); });
        compare([&](K e, float* z) { e.add_scaled(z, y.data(), 0.7f, n); });
        compare([&](K e, float* z) { e.multiply(z, y.data(), n); });
        compare([&](K e, float* z) { e.silu_multiply(z, y.data(), n); });
        compare([&](K e, float* z) { e.gelu_tanh_multiply(z, y.data(), n); });
        compare([&](K e, float* z) { e.sigmoid_gate(z, y.data(), n); });
        compare([&](K e, float* z) { e.softplus_gate(z, y.data(), n); });
        compare([&](K e, float* z) { e.rms_norm(z, y.data(), n, 1e-6, false, z); });
        compare([&](K e, float* z) { e.rms_norm(z, y.data(), n, 1e-6, true, z); });
        compare([&](K e, float* z) { e.l2_norm(z, n, 1e-6, 0.125f, z); });
        EXPECT_EQ(scalar.argmax(x.data(), n), k.argmax(x.data(), n));
        if (n >= 4) {
          const uint32_t half = static_cast<uint32_t>(n / 2), heads = 1;
          compare(
              [&](K e, float* z) { e.rotate(z, heads, static_cast<uint32_t>(n), half, y.data(), y.data() + half); });
        }
      }
    }
  }
}

TEST(Elementwise, norms_agree_with_their_formulas_in_double) {
  for (const uint64_t width : {1u, 7u, 8u, 64u, 1000u, 1024u}) {
    const std::vector<float> x = normal(width, width, 3), w = normal(width, width + 1);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    std::vector<float> plain(width), gemma(width), unit(width);
    rms_norm(x.data(), w.data(), width, 1e-6, false, plain.data());
    rms_norm(x.data(), w.data(), width, 1e-6, true, gemma.data());
    l2_norm(x.data(), width, 1e-6, 0.25f, unit.data());
    for (uint64_t i = 0; i < width; ++i) {
      const double normed = x[i] / std::sqrt(squares / static_cast<double>(width) + 1e-6);
      EXPECT_NEAR(plain[i], normed * w[i], 3e-7 * std::abs(normed * w[i]));
      EXPECT_NEAR(gemma[i], normed * (1.0 + w[i]), 3e-7 * std::abs(normed) * (1 + std::abs(w[i])));
      EXPECT_NEAR(unit[i], x[i] / std::sqrt(squares + 1e-6) * 0.25, 3e-7);
    }
  }
}

TEST(Elementwise, squares_of_huge_values_do_not_overflow_the_norm) {
  std::vector<float> x(40, 1e30f), y(40);
  const std::vector<float> w(40, 1.0f);
  rms_norm(x.data(), w.data(), x.size(), 1e-6, false, y.data());
  for (const float v : y) EXPECT_NEAR(v, 1, 1e-6);
}

TEST(Elementwise, softmax_sums_to_one_and_survives_large_scores) {
  for (const uint64_t n : {1u, 2u, 15u, 16u, 17u, 1000u}) {
    std::vector<float> x = normal(n, n, 30);
    for (float& v : x) v += 3e4f;
    std::vector<double> want(x.begin(), x.end());
    const double top = *std::max_element(want.begin(), want.end());
    double total = 0;
    for (double& v : want) total += v = std::exp(v - top);
    softmax(x.data(), n);
    for (uint64_t i = 0; i < n; ++i) EXPECT_NEAR(x[i], want[i] / total, 1e-6);
  }
}

TEST(Elementwise, argmax_takes_the_first_of_equals_and_never_nan) {
  std::vector<float> x(100, 1.0f);
  EXPECT_EQ(argmax(x.data(), x.size()), 0u);
  x[37] = x[53] = x[99] = 2;
  EXPECT_EQ(argmax(x.data(), x.size()), 37u);
  x[5] = kNan;
  EXPECT_EQ(argmax(x.data(), x.size()), 37u);
  x[99] = kInfinity;
  EXPECT_EQ(argmax(x.data(), x.size()), 99u);
  std::vector<float> wide(150000, -1.0f);
  wide[149999] = wide[100001] = wide[99999] = 5;
  EXPECT_EQ(argmax(wide.data(), wide.size()), 99999u);
  std::vector<float> zeros(50, -0.0f);
  zeros[20] = 0.0f;
  EXPECT_EQ(argmax(zeros.data(), zeros.size()), 0u);
  std::vector<float> nothing(50, kNan);
  EXPECT_EQ(argmax(nothing.data(), nothing.size()), 0u);
  nothing[33] = -kInfinity;
  EXPECT_EQ(argmax(nothing.data(), nothing.size()), 33u);
}

}  // namespace
}  // namespace cortiq::kernels
