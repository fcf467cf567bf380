#pragma once
#include <arm_neon.h>

#include <cstdint>

// Sixteen lanes of f32 in four NEON registers; lanes_scalar.h says what each operation means.
namespace cortiq::kernels {
namespace {

struct Lanes {
  float32x4_t v[4];
};
struct Ints {
  int32x4_t v[4];
};
struct Mask {
  uint32x4_t v[4];
};
struct Doubles {
  float64x2_t v[4];
};

// Four accumulators take half of the 32 registers.
constexpr int kTileRows = 2, kTileAccumulators = 4;

template <class Result = Lanes, class F>
[[gnu::always_inline]] inline Result each(F f) noexcept {
  return {{f(0), f(1), f(2), f(3)}};
}

inline Lanes set(float x) noexcept {
  return each([=](int) { return vdupq_n_f32(x); });
}
inline Lanes load(const float* p) noexcept {
  return each([=](int i) { return vld1q_f32(p + 4 * i); });
}
inline Lanes load_part(const float* p, uint64_t n) noexcept {
  float part[16] = {};
  __builtin_memcpy(part, p, n * sizeof(float));
  return load(part);
}
inline float first_lane(Lanes a) noexcept { return vgetq_lane_f32(a.v[0], 0); }
inline void store(float* p, Lanes a) noexcept {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline void store_part(float* p, Lanes a, uint64_t n) noexcept {
  float part[16];
  store(part, a);
  __builtin_memcpy(p, part, n * sizeof(float));
}

inline Lanes operator+(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Lanes operator-(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Lanes operator*(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Lanes operator/(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) noexcept {
  return each([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
inline Lanes fnma(Lanes a, Lanes b, Lanes c) noexcept {
  return each([&](int i) { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); });
}
// The processor's own maximum and minimum treat NaN and zeros otherwise.
inline float32x4_t larger(float32x4_t a, float32x4_t b) noexcept { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Lanes max(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return larger(a.v[i], b.v[i]); });
}
inline Lanes min(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline Lanes abs(Lanes a) noexcept {
  return each([&](int i) { return vabsq_f32(a.v[i]); });
}
inline Lanes copysign(Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vbslq_f32(vdupq_n_u32(0x80000000u), b.v[i], a.v[i]); });
}

inline Mask less(Lanes a, Lanes b) noexcept {
  return each<Mask>([&](int i) { return vcltq_f32(a.v[i], b.v[i]); });
}
inline Mask unordered(Lanes a) noexcept {
  return each<Mask>([&](int i) { return vmvnq_u32(vceqq_f32(a.v[i], a.v[i])); });
}
inline Mask range(int from, int to) noexcept {
  static constexpr int32_t kFirst[4] = {0, 1, 2, 3};
  return each<Mask>([=](int i) {
    const int32x4_t lane = vaddq_s32(vld1q_s32(kFirst), vdupq_n_s32(4 * i));
    return vandq_u32(vcgeq_s32(lane, vdupq_n_s32(from)), vcltq_s32(lane, vdupq_n_s32(to)));
  });
}
inline Lanes select(Mask m, Lanes a, Lanes b) noexcept {
  return each([&](int i) { return vbslq_f32(m.v[i], a.v[i], b.v[i]); });
}

inline Ints bits(Lanes a) noexcept {
  return each<Ints>([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
}
inline Lanes floats(Ints a) noexcept {
  return each([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
}
inline Ints set(int32_t x) noexcept {
  return each<Ints>([=](int) { return vdupq_n_s32(x); });
}
inline Ints operator+(Ints a, Ints b) noexcept {
  return each<Ints>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
inline Ints operator-(Ints a, Ints b) noexcept {
  return each<Ints>([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
}
inline Ints half_of(Ints a) noexcept {
  return each<Ints>([&](int i) { return vshrq_n_s32(a.v[i], 1); });
}
inline Ints shift_to_exponent(Ints a) noexcept {
  return each<Ints>([&](int i) { return vshlq_n_s32(a.v[i], 23); });
}
inline Lanes power_of_two(Ints n) noexcept { return floats(shift_to_exponent(n + set(int32_t{127}))); }
inline Lanes times_power_of_two(Lanes a, Lanes, Ints n) noexcept {
  const Ints half = half_of(n);
  return a * power_of_two(half) * power_of_two(n - half);
}

/// Lanes l and l+8 of a are added, then l+4.
inline float32x4_t four_sums(const Lanes& a) noexcept {
  return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
}
inline float sum(Lanes a) noexcept {
  const float32x4_t four = four_sums(a);
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}
inline float largest(Lanes a) noexcept {
  const float32x4_t four = larger(larger(a.v[0], a.v[2]), larger(a.v[1], a.v[3]));
  const float32x4_t two = larger(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(larger(two, vextq_f32(two, two, 1)), 0);
}
// Each step of the tree adds the halves of two vectors at once.
inline Lanes sums(const Lanes (&a)[16]) noexcept {
  const auto halves = [](float32x4_t x, float32x4_t y) {
    return vaddq_f32(vcombine_f32(vget_low_f32(x), vget_low_f32(y)), vcombine_f32(vget_high_f32(x), vget_high_f32(y)));
  };
  return each([&](int i) {
    const Lanes* b = a + 4 * i;
    return vpaddq_f32(halves(four_sums(b[0]), four_sums(b[1])), halves(four_sums(b[2]), four_sums(b[3])));
  });
}

inline Doubles zero_doubles() noexcept {
  return each<Doubles>([](int) { return vdupq_n_f64(0); });
}
inline Doubles add_squares(Doubles acc, const float* p) noexcept {
  return each<Doubles>([&](int i) {
    const float64x2_t x = vcvt_f64_f32(vld1_f32(p + 2 * i));
    return vfmaq_f64(acc.v[i], x, x);
  });
}
inline double sum(Doubles a) noexcept {
  return vpaddd_f64(vaddq_f64(vaddq_f64(a.v[0], a.v[2]), vaddq_f64(a.v[1], a.v[3])));
}
inline double square_root(double x) noexcept { return vget_lane_f64(vsqrt_f64(vdup_n_f64(x)), 0); }

inline Lanes load_half(const uint16_t* p) noexcept {
  return each([=](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline void store_half(uint16_t* p, Lanes a) noexcept {
  const Lanes held = copysign(min(abs(a), set(65504.0f)), a);
  const Lanes value = select(unordered(a), copysign(set(__builtin_nanf("")), a), held);
  for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(value.v[i])));
}
inline Lanes load_codes(const int8_t* p) noexcept {
  const int8x16_t codes = vld1q_s8(p);
  const int16x8_t half[2] = {vmovl_s8(vget_low_s8(codes)), vmovl_s8(vget_high_s8(codes))};
  return each([&](int i) {
    const int16x8_t words = half[i / 2];
    return vcvtq_f32_s32(vmovl_s16(i % 2 ? vget_high_s16(words) : vget_low_s16(words)));
  });
}
inline void store_codes(int8_t* p, Ints a) noexcept {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

}  // namespace
}  // namespace cortiq::kernels
