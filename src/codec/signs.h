#pragma once
#include <cstdint>

#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/scale.h"

// What q1 and q1s share: tiles of a scale and 32 sign bits (facts §5.9).
namespace cortiq::codec {

/// Bit k of byte j belongs to element 8j + k: set for +scale.
inline void decode_signs(const uint8_t* tiles, uint64_t count, float* out) {
  const auto spread = loops().spread_signs;
  for (uint64_t t = 0; t < count; ++t, tiles += kQ1TileBytes, out += kGroup) {
    spread(load32(tiles + 2), load_half(tiles), out);
  }
}

/// Encodes a group with error diffusion: what a sign gets wrong is carried to the next element of the row. Elements for
/// which outlier(i) holds take no part: their bit is their own sign and the carry passes them by. Returns whether the
/// scale is finite.
template <class Outlier>
bool encode_diffused(const float* v, Outlier outlier, float& carry, uint8_t* tile) noexcept {
  float sum = 0;  // in element order: the format's result depends on it
  uint32_t count = 0;
  for (uint32_t i = 0; i < kGroup; ++i) {
    if (outlier(i)) continue;
    sum += v[i] < 0 ? -v[i] : v[i];
    ++count;
  }
  const uint16_t half = scale_half(count == 0 ? 0.0f : sum / static_cast<float>(count));
  const float scale = f16_to_f32(half);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kGroup; ++i) {
    const float x = outlier(i) ? v[i] : v[i] + carry;
    const bool up = x >= 0;
    bits |= uint32_t{up} << i;
    if (!outlier(i)) carry = x - (up ? scale : -scale);
  }
  store16(tile, half);
  store32(tile + 2, bits);
  return is_finite_half(half);
}

}  // namespace cortiq::codec
