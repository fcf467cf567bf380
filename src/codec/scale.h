#pragma once
#include <bit>

#include "base/half.h"
#include "codec/layout.h"

// Scale rounding, S of the facts' §5: a scale is rounded to half precision before anything is divided by it, and is at
// least 2^-14, so that groups of zeros divide by something and no scale is a subnormal half.
namespace cortiq::codec {

inline constexpr uint16_t kSmallestScale = 0x0400;  ///< 2^-14

inline uint16_t scale_half(float x) noexcept {
  const uint16_t half = f32_to_f16(x);
  return half < kSmallestScale ? kSmallestScale : half;
}
inline bool is_finite_half(uint16_t half) noexcept { return (half & 0x7C00) != 0x7C00; }

inline void store16(uint8_t* at, uint16_t value) noexcept { std::memcpy(at, &value, 2); }
inline void store32(uint8_t* at, uint32_t value) noexcept { std::memcpy(at, &value, 4); }

/// Nearest even for |x| < 2^22: adding 1.5·2^23 leaves no bits for a fraction.
inline float round_even(float x) noexcept { return (x + 12582912.0f) - 12582912.0f; }

}  // namespace cortiq::codec
