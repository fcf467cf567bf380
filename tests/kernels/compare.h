#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"

namespace cortiq::kernels {

/// Equal bits, except that any NaN equals any NaN (which payload survives an operation is the processor's affair).
inline bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

inline testing::AssertionResult same(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) {
      return testing::AssertionFailure() << "value " << i << ": " << testing::PrintToString(a[i]) << " against "
                                         << testing::PrintToString(b[i]);
    }
  }
  return testing::AssertionSuccess();
}

inline std::vector<float> normal(size_t n, uint64_t seed, float deviation = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> values(0, deviation);
  std::vector<float> result(n);
  for (float& x : result) x = values(random);
  return result;
}

/// Any bit pattern: subnormals, infinities and NaN among them.
inline std::vector<float> any_bits(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> result(n);
  for (float& x : result) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
  return result;
}

/// Values at which something changes, each beside its neighbours.
inline std::vector<float> edges() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> result;
  for (const float x : {0.0f,
                        Limits::denorm_min(),
                        Limits::min(),
                        0x1p-100f,
                        0x1p-24f,
                        0x1p-12f,
                        0.25f,
                        0.34657359f,
                        0.5f,
                        1.0f,
                        2.0f,
                        10.0f,
                        20.0f,
                        40.0f,
                        87.33654f,
                        88.72284f,
                        89.0f,
                        103.97208f,
                        104.0f,
                        1e3f,
                        0x1p23f,
                        0x1p31f,
                        65504.0f,
                        65520.0f,
                        1e19f,
                        Limits::max(),
                        Limits::infinity()}) {
    for (const float y : {std::nextafter(x, 0.0f), x, std::nextafter(x, Limits::infinity())}) {
      result.push_back(y);
      result.push_back(-y);
    }
  }
  result.push_back(Limits::quiet_NaN());
  result.push_back(-Limits::quiet_NaN());
  return result;
}

/// The levels beside Scalar that this machine can run, printed once so that a log tells what was compared.
inline std::vector<Isa> vector_isas() {
  std::vector<Isa> result(available_isas().begin() + 1, available_isas().end());
  std::string names;
  for (const Isa isa : result) names += " " + std::string(name(isa));
  testing::Test::RecordProperty("compared_with_scalar", names);
  return result;
}

}  // namespace cortiq::kernels
