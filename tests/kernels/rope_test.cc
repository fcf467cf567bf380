#include "kernels/rope.h"

#include <cmath>

#include "kernels/compare.h"

namespace cortiq::kernels {
namespace {

constexpr double kClose = 4e-15;  // relative

void expect_close(double got, double want, double relative = kClose) {
  EXPECT_NEAR(got, want, std::abs(want) * relative);
}

TEST(Rope, yarn_frequencies_of_two_families) {  // ENGINE_FACTS §5.4
  RopeProfile laguna{.rotary = 64, .theta = 500000, .yarn = true, .yarn_factor = 128, .yarn_original = 8192};
  const RopeTable first(laguna);
  EXPECT_EQ(first.frequencies().size(), 32u);
  expect_close(first.frequencies()[9], 0.024955408670558694);
  expect_close(first.frequencies()[10], 0.014734766565120926);
  expect_close(first.frequencies()[15], 7.214727598920717e-4);
  expect_close(first.frequencies()[18], 4.865409546207782e-6);
  RopeProfile qwen{.rotary = 128, .theta = 1e6, .yarn = true, .yarn_factor = 4, .yarn_original = 32768};
  const RopeTable second(qwen);
  expect_close(second.frequencies()[24], 0.005375321490790102);
  expect_close(second.frequencies()[40], 4.4456985250973074e-5);
  for (size_t i = 0; i <= 23; ++i) expect_close(second.frequencies()[i], std::pow(1e6, -static_cast<double>(i) / 64));
}

TEST(Rope, yarn_clamps_the_slow_end_at_the_width_not_at_half_of_it) {  // HF's clamp; differs when N > 2πθ
  RopeProfile profile{.rotary = 16, .theta = 100, .yarn = true, .yarn_factor = 8, .yarn_original = 100000};
  const RopeTable table(profile);
  const auto dim = [](double turns) { return 16 * std::log(100000 / (2 * M_PI * turns)) / (2 * std::log(100.0)); };
  const double low = std::max(std::floor(dim(32)), 0.0), high = std::min(std::ceil(dim(1)), 15.0);
  ASSERT_EQ(high, 15);
  for (size_t i = 0; i < 8; ++i) {
    const double ramp = std::min(std::max((static_cast<double>(i) - low) / (high - low), 0.0), 1.0);
    expect_close(table.frequencies()[i], std::pow(100.0, -static_cast<double>(i) / 8) * (1 - ramp + ramp / 8));
  }
}

TEST(Rope, frequency_factors_divide_and_missing_ones_are_one) {  // ENGINE_FACTS §5.3
  RopeProfile profile{.rotary = 128, .theta = 500000};
  profile.freq_factors.assign(64, 1.0);
  profile.freq_factors[31] = 2.0263132059050553;
  profile.freq_factors.resize(32);
  const RopeTable table(profile);
  expect_close(table.frequencies()[31], 8.567514129196321e-4);
  expect_close(table.frequencies()[28], std::pow(500000.0, -28.0 / 64));
  expect_close(table.frequencies()[40], std::pow(500000.0, -40.0 / 64));
  RopeProfile longrope{.rotary = 8, .freq_factors = {1, 1.1, 1.2, 1.3}};  // §23
  const RopeTable phi(longrope);
  expect_close(phi.frequencies()[1], 0.0909090936, 1e-7);
  expect_close(phi.frequencies()[2], 0.0083333328, 1e-7);
  expect_close(phi.frequencies()[3], 0.00076923071, 1e-7);
}

TEST(Rope, table_is_accurate_to_a_million_positions) {
  for (const double theta : {10000.0, 1e6, 7e7}) {
    RopeTable table({.rotary = 16, .theta = theta, .attention_factor = 1.25});
    table.reserve(1 << 20);
    ASSERT_GE(table.positions(), uint64_t{1} << 20);
    for (uint64_t p = 0; p < table.positions(); p += p < 100 ? 1 : 997) {
      for (size_t i = 0; i < 8; ++i) {
        const long double angle = static_cast<long double>(p) * table.frequencies()[i];
        const double c = static_cast<double>(std::cos(angle)) * 1.25, s = static_cast<double>(std::sin(angle)) * 1.25;
        ASSERT_NEAR(table.cos(p)[i], c, 7e-8) << p << " " << i;  // half a unit of the last place, and nothing besides
        ASSERT_NEAR(table.sin(p)[i], s, 7e-8) << p << " " << i;
      }
    }
  }
}

TEST(Rope, growing_the_table_keeps_what_it_held) {
  RopeTable grown({.rotary = 8}), whole({.rotary = 8});
  grown.reserve(3);
  grown.reserve(1500);
  grown.reserve(7);
  whole.reserve(1500);
  ASSERT_EQ(grown.positions(), whole.positions());
  for (uint64_t p = 0; p < grown.positions(); ++p) {
    ASSERT_TRUE(same({grown.cos(p), 4}, {whole.cos(p), 4}));
    ASSERT_TRUE(same({grown.sin(p), 4}, {whole.sin(p), 4}));
  }
}

TEST(Rope, only_the_rotary_part_of_each_head_turns) {
  RopeTable table({.rotary = 4, .theta = 100});
  table.reserve(50);
  std::vector<float> x = normal(12, 1);
  const std::vector<float> before = x;
  apply_rope(x.data(), 2, 6, 37, table);
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < 2; ++i) {
      const double angle = 37 * std::pow(100.0, -static_cast<double>(i) / 2);
      const double a = before[6 * h + i], b = before[6 * h + 2 + i];
      EXPECT_NEAR(x[6 * h + i], a * std::cos(angle) - b * std::sin(angle), 3e-7);
      EXPECT_NEAR(x[6 * h + 2 + i], a * std::sin(angle) + b * std::cos(angle), 3e-7);
    }
    EXPECT_EQ(x[6 * h + 4], before[6 * h + 4]);
    EXPECT_EQ(x[6 * h + 5], before[6 * h + 5]);
  }
}

}  // namespace
}  // namespace cortiq::kernels
