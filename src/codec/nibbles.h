#pragma once
#include <cstdint>

namespace cortiq::codec {

/// The 32 values of a group of nibbles, element 2k in the low and 2k+1 in the high half of byte k: (q - 8)·scale.
inline void decode_nibbles(const uint8_t* nibbles, float scale, float* out) noexcept {
  for (int k = 0; k < 16; ++k) {
    out[2 * k] = static_cast<float>((nibbles[k] & 15) - 8) * scale;
    out[2 * k + 1] = static_cast<float>((nibbles[k] >> 4) - 8) * scale;
  }
}

}  // namespace cortiq::codec
