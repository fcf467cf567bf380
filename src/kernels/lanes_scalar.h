#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/half.h"

// Sixteen lanes of f32 in portable code: what the operations of lanes_avx2.h and lanes_avx512.h mean. Kernels between
// the matrices are written once over these types (…_body.h) and compiled per instruction set; everything here and there
// stands in an unnamed namespace, so that no function compiled for one processor is picked by the linker for another.
namespace cortiq::kernels {
namespace {

struct Lanes {
  float v[16];
};
struct Ints {
  int32_t v[16];
};
struct Mask {
  bool v[16];
};
struct Doubles {
  double v[8];
};

// What fits in registers (tiles_body.h): rows of a tile at most, and accumulators.
constexpr int kTileRows = 1, kTileAccumulators = 1;

template <class Result = Lanes, class F>
inline Result each(F f) noexcept {
  Result r;
  for (int i = 0; i < static_cast<int>(sizeof r.v / sizeof r.v[0]); ++i) r.v[i] = f(i);
  return r;
}

inline Lanes set(float x) noexcept {
  return each([=](int) { return x; });
}
inline Lanes load(const float* p) noexcept {
  return each([=](int i) { return p[i]; });
}
/// The first n values (n ≤ 16); the other lanes are +0.
inline Lanes load_part(const float* p, uint64_t n) noexcept {
  return each([=](int i) { return static_cast<uint64_t>(i) < n ? p[i] : 0.0f; });
}
inline float first_lane(const Lanes& a) noexcept { return a.v[0]; }
inline void store(float* p, const Lanes& a) noexcept {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline void store_part(float* p, const Lanes& a, uint64_t n) noexcept {
  for (uint64_t i = 0; i < n; ++i) p[i] = a.v[i];
}

inline Lanes operator+(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline Lanes operator-(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline Lanes operator*(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline Lanes operator/(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
/// a·b + c, rounded once.
inline Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) noexcept {
  return each([&](int i) { return ::fmaf(a.v[i], b.v[i], c.v[i]); });
}
/// c − a·b, rounded once.
inline Lanes fnma(const Lanes& a, const Lanes& b, const Lanes& c) noexcept {
  return each([&](int i) { return ::fmaf(-a.v[i], b.v[i], c.v[i]); });
}
/// The second operand where one of them is NaN or both are zeros (as x86 has it).
inline Lanes max(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes min(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes abs(const Lanes& a) noexcept {
  return each([&](int i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(a.v[i]) & 0x7FFFFFFFu); });
}
/// |a| with the sign of b.
inline Lanes copysign(const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(a.v[i]) & 0x7FFFFFFFu) |
                                (std::bit_cast<uint32_t>(b.v[i]) & 0x80000000u));
  });
}

inline Mask less(const Lanes& a, const Lanes& b) noexcept {
  return each<Mask>([&](int i) { return a.v[i] < b.v[i]; });
}
inline Mask unordered(const Lanes& a) noexcept {
  return each<Mask>([&](int i) { return a.v[i] != a.v[i]; });
}
/// Lanes from ≤ lane < to.
inline Mask range(int from, int to) noexcept {
  return each<Mask>([=](int i) { return i >= from && i < to; });
}
/// The lanes of a where the mask is set, of b elsewhere.
inline Lanes select(const Mask& m, const Lanes& a, const Lanes& b) noexcept {
  return each([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}

inline Ints bits(const Lanes& a) noexcept {
  return each<Ints>([&](int i) { return std::bit_cast<int32_t>(a.v[i]); });
}
inline Lanes floats(const Ints& a) noexcept {
  return each([&](int i) { return std::bit_cast<float>(a.v[i]); });
}
inline Ints set(int32_t x) noexcept {
  return each<Ints>([=](int) { return x; });
}
inline Ints operator+(const Ints& a, const Ints& b) noexcept {
  return each<Ints>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])); });
}
inline Ints operator-(const Ints& a, const Ints& b) noexcept {
  return each<Ints>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i])); });
}
inline Ints half_of(const Ints& a) noexcept {  ///< arithmetic shift right by one
  return each<Ints>([&](int i) { return a.v[i] >> 1; });
}
inline Ints shift_to_exponent(const Ints& a) noexcept {  ///< shift left by 23
  return each<Ints>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << 23); });
}
/// 2^n for −126 ≤ n ≤ 127.
inline Lanes power_of_two(const Ints& n) noexcept { return floats(shift_to_exponent(n + set(int32_t{127}))); }
/// a·2^n, rounded once, for −151 ≤ n ≤ 129 and a in [½, 2]; n as f32 and as integers. In two steps, since 2^n itself
/// may lie outside f32; only the second can round (subnormal results).
inline Lanes times_power_of_two(const Lanes& a, const Lanes&, const Ints& n) noexcept {
  const Ints half = half_of(n);
  return a * power_of_two(half) * power_of_two(n - half);
}

template <class V>
inline auto tree(V a, int lanes) noexcept {
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
/// Lanes l and l+8 are added, then l+4, l+2, l+1 (decisions 1).
inline float sum(const Lanes& a) noexcept { return tree(a, 16); }
inline float largest(Lanes a) noexcept {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}
/// Lane i of the result is sum(a[i]).
inline Lanes sums(const Lanes (&a)[16]) noexcept {
  return each([&](int i) { return sum(a[i]); });
}

inline Doubles zero_doubles() noexcept { return {}; }
/// acc + x², lane by lane over eight values; x² of an f32 is exact in f64.
inline Doubles add_squares(const Doubles& acc, const float* p) noexcept {
  return each<Doubles>([&](int i) { return acc.v[i] + static_cast<double>(p[i]) * static_cast<double>(p[i]); });
}
inline double sum(const Doubles& a) noexcept { return tree(a, 8); }
inline double square_root(double x) noexcept { return ::sqrt(x); }

inline Lanes load_half(const uint16_t* p) noexcept {
  return each([=](int i) { return f16_to_f32(p[i]); });
}
/// IEEE rounding, saturating at ±65504; NaN as 0x7E00 with its sign (decisions 4).
inline void store_half(uint16_t* p, const Lanes& a) noexcept {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16_ieee_saturating(a.v[i]);
}
inline Lanes load_codes(const int8_t* p) noexcept {
  return each([=](int i) { return static_cast<float>(p[i]); });
}
/// Values in −128 … 127.
inline void store_codes(int8_t* p, const Ints& a) noexcept {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

}  // namespace
}  // namespace cortiq::kernels
