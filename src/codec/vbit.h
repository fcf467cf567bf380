#pragma once
#include <cstdint>

namespace cortiq::codec {

/// The number of bits of a vbit row nearest to the target: 3, 4, 5, 6 or 8; the lower one of two (facts §5.7).
uint8_t vbit_level(float target) noexcept;

/// The budget that an option asks for: clamped to [3, 8], in thousandths.
float vbit_budget(double mean_bits) noexcept;

}  // namespace cortiq::codec
