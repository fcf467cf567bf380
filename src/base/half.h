#pragma once
#include <bit>
#include <cstdint>

// Half-precision and bfloat16 values as they stand in files (FORMAT_FACTS §5.1). The functions are definitions; vector
// versions in the kernels are tested against them over all bit patterns.
namespace cortiq {

/// Rounding of the file format: nearest even above 2^-14, nearest with ties away from zero below it (subnormals).
/// Infinity and NaN pass (NaN as 0x7E00 with its sign).
inline uint16_t f32_to_f16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const int32_t exponent = static_cast<int32_t>(bits >> 23 & 0xFF);
  const uint32_t mantissa = bits & 0x7FFFFF;
  if (exponent == 255) return static_cast<uint16_t>(sign | (mantissa ? 0x7E00 : 0x7C00));
  const int32_t e = exponent - 112;
  if (e >= 31) return static_cast<uint16_t>(sign | 0x7C00);
  if (e >= 1) {
    uint32_t half = static_cast<uint32_t>(e) << 10 | mantissa >> 13;
    const uint32_t rest = mantissa & 0x1FFF;
    if (rest > 0x1000 || (rest == 0x1000 && (half & 1))) ++half;  // the carry may reach the exponent, and infinity
    return static_cast<uint16_t>(sign | half);
  }
  if (e < -10) return static_cast<uint16_t>(sign);
  const uint32_t full = mantissa | 0x800000;
  const uint32_t shift = static_cast<uint32_t>(14 - e);
  return static_cast<uint16_t>(sign | ((full >> shift) + (full >> (shift - 1) & 1)));
}

/// IEEE rounding (ties to even everywhere), saturating at ±65504: what the KV cache stores (decisions: attention).
/// NaN stays NaN.
inline uint16_t f32_to_f16_ieee_saturating(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7BFF);  // 65520 and above
  if (magnitude < 0x33000000) return static_cast<uint16_t>(sign);            // below 2^-25
  const uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) {
    uint32_t half = (exponent - 112) << 10 | (magnitude >> 13 & 0x3FF);
    const uint32_t rest = magnitude & 0x1FFF;
    if (rest > 0x1000 || (rest == 0x1000 && (half & 1))) ++half;
    return static_cast<uint16_t>(sign | half);
  }
  const uint32_t full = (magnitude & 0x7FFFFF) | 0x800000;
  const uint32_t shift = 126 - exponent;
  uint32_t half = full >> shift;
  const uint32_t rest = full & ((1u << shift) - 1), tie = 1u << (shift - 1);
  if (rest > tie || (rest == tie && (half & 1))) ++half;
  return static_cast<uint16_t>(sign | half);
}

/// Exact for all 65536 patterns; a NaN keeps its payload, shifted left 13.
inline float f16_to_f32(uint16_t half) noexcept {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  uint32_t mantissa = half & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21;
  mantissa = mantissa << shift & 0x3FF;
  return std::bit_cast<float>(sign | (113 - shift) << 23 | mantissa << 13);
}

inline float bf16_to_f32(uint16_t value) noexcept { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

/// Nearest even; NaN is made quiet.
inline uint16_t f32_to_bf16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace cortiq
