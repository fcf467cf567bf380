#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/codec.h"
#include "codec/layout.h"

// Random payloads of every dtype, valid but not what an encoder would write: kernels must agree on all of them.
namespace cortiq::test {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15 + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  uint64_t below(uint64_t n) { return next() % n; }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1; }  ///< [-1, 1)

 private:
  uint64_t state_;
};

/// Ordinary data; the ends of every range (extreme codes, scales that are zero, subnormal or as large as a half can
/// be); or ordinary data without overlays.
enum class Data { Ordinary, Extreme, Plain };

std::vector<uint8_t> random_payload(codec::Dtype dtype, uint64_t rows, uint64_t cols, Data data, Random& random);

/// Activations; Extreme mixes zeros, subnormals, huge values, infinities and NaN, each in groups of their own.
std::vector<float> random_activations(uint64_t count, uint64_t width, Data data, Random& random);

}  // namespace cortiq::test
