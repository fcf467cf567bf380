#include "kernels/rope.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/cpu.h"
#include "kernels/elementwise_kernels.h"

namespace cortiq::kernels {
namespace {

// Double-precision functions of our own, so that tables are equal on every machine. Only +, −, ·, / and conversions.
constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: exponents times it are exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kTwoPi = 0x1.921fb54442d18p+2;

/// ln x for finite normal x > 0: x = 2^e·m, √½ ≤ m < √2, ln m = 2·artanh((m−1)/(m+1)).
double natural_log(double x) noexcept {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  bits = (bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000;
  double m = std::bit_cast<double>(bits);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 0;  // Σ z^k / (2k+1), |z| < 0.0295: the first term left out is below 2^-64
  for (int k = 12; k > 0; --k) series = series * z + 1.0 / (2 * k + 1);
  series *= z;
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (2 * s + (2 * s * series + e * kLn2Low));
}

double exponential(double x) noexcept {
  if (x < -700) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<int64_t>(x * 0x1.71547652b82fep+0 + (x < 0 ? -0.5 : 0.5));
  const double e = static_cast<double>(n);
  const double r = (x - e * kLn2High) - e * kLn2Low;
  double series = 1;  // Σ r^k / k!, |r| < 0.35
  for (int k = 14; k > 0; --k) series = 1 + series * r / k;
  return series * std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

struct SinCos {
  double sin, cos;
};

/// For 0 ≤ x < 2^20·π/2: n = round(x / (π/2)) has at most 20 bits, so its products with the first two parts of π/2 (33
/// bits each) are exact.
SinCos sin_cos(double x) noexcept {
  constexpr double kFirst = 0x1.921fb54400000p+0, kSecond = 0x1.0b4611a600000p-34, kThird = 0x1.3198a2e037073p-69;
  const auto n = static_cast<int64_t>(x * 0x1.45f306dc9c883p-1 + 0.5);
  const double turns = static_cast<double>(n);
  const double near = x - turns * kFirst, correction = turns * kSecond;
  const double high = near - correction;
  const double r = high + ((near - high - correction) - turns * kThird);
  const double z = r * r;
  double s = 1, c = 1;  // sin r = r·(1 − z/(2·3)·(1 − z/(4·5)·(…))), cos r = 1 − z/(1·2)·(1 − z/(3·4)·(…))
  for (int k = 9; k > 0; --k) {
    s = 1 - s * z / (2 * k * (2 * k + 1));
    c = 1 - c * z / ((2 * k - 1) * 2 * k);
  }
  s *= r;
  switch (n & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

double floor(double x) noexcept {
  const double whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1 : whole;
}

// ENGINE_FACTS §5.4: frequencies that turn often keep their speed, slow ones are stretched by the factor.
void apply_yarn(const RopeProfile& profile, std::vector<double>& frequency) {
  const double width = profile.rotary;
  const auto dimension = [&](double turns) {
    return width * natural_log(profile.yarn_original / (kTwoPi * turns)) / (2 * natural_log(profile.theta));
  };
  const double low = std::max(floor(dimension(profile.yarn_beta_fast)), 0.0);
  double high = std::min(-floor(-dimension(profile.yarn_beta_slow)), width - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequency.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequency[i] *= 1 - ramp + ramp / profile.yarn_factor;
  }
}

}  // namespace

RopeTable::RopeTable(const RopeProfile& profile)
    : rotary_(profile.rotary), factor_(profile.attention_factor), frequency_(profile.rotary / 2) {
  const double log_theta = natural_log(profile.theta);
  for (size_t i = 0; i < frequency_.size(); ++i) {
    frequency_[i] = exponential(-(static_cast<double>(2 * i) / profile.rotary) * log_theta);
  }
  if (profile.yarn) apply_yarn(profile, frequency_);
  for (size_t i = 0; i < std::min(frequency_.size(), profile.freq_factors.size()); ++i) {
    frequency_[i] /= profile.freq_factors[i];
  }
}

uint64_t RopeTable::positions() const noexcept { return frequency_.empty() ? 0 : cos_.size() / frequency_.size(); }

void RopeTable::reserve(uint64_t wanted) {
  constexpr uint64_t kBlock = 64;
  const uint64_t from = positions(), to = (wanted + kBlock - 1) / kBlock * kBlock;
  if (wanted <= from || frequency_.empty()) return;
  cos_.reserve(to * frequency_.size());
  sin_.reserve(to * frequency_.size());
  for (uint64_t p = from; p < to; ++p) {
    for (const double f : frequency_) {
      const SinCos value = sin_cos(static_cast<double>(p) * f);
      cos_.push_back(static_cast<float>(factor_ * value.cos));
      sin_.push_back(static_cast<float>(factor_ * value.sin));
    }
  }
}

const float* RopeTable::cos(uint64_t position) const noexcept { return cos_.data() + position * frequency_.size(); }
const float* RopeTable::sin(uint64_t position) const noexcept { return sin_.data() + position * frequency_.size(); }

void apply_rope(float* x, uint32_t heads, uint32_t head_dim, uint64_t position, const RopeTable& table) noexcept {
  static const ElementwiseKernels& kernels = elementwise_kernels(active_isa());
  kernels.rotate(x, heads, head_dim, table.rotary() / 2, table.cos(position), table.sin(position));
}

}  // namespace cortiq::kernels
