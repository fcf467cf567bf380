#pragma once
#include <cmath>
#include <random>
#include <vector>

#include "codec/codec.h"

namespace cortiq::codec {

/// Normal weights of standard deviation 0.02, as trained matrices have them.
inline std::vector<float> gaussian(const Shape& shape, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(shape.elements());
  for (float& v : values) v = normal(random);
  return values;
}

/// The same with a column 30 times as large, a row 10 times, and one value in 500 40 times.
inline std::vector<float> outlier_heavy(const Shape& shape, uint32_t seed = 1) {
  std::vector<float> values = gaussian(shape, seed);
  const uint64_t cols = shape.cols();
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (i % cols == 5) values[i] *= 30;
    if (i / cols == 7) values[i] *= 10;
    if (i % 500 == 99) values[i] *= 40;
  }
  return values;
}

inline std::vector<float> decoded(const Codec& codec, const std::vector<uint8_t>& payload, const Shape& shape) {
  std::vector<float> out(shape.elements());
  codec.decode(Bytes(payload), shape, 0, shape.rows(), out.data());
  return out;
}

/// sqrt(Σ(x - y)² / Σx²)
inline double relative_rms(const std::vector<float>& x, const std::vector<float>& y) {
  double miss = 0, all = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    miss += (a - b) * (a - b);
    all += a * a;
  }
  return std::sqrt(miss / all);
}

}  // namespace cortiq::codec
