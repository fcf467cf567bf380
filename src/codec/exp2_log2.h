#pragma once
#include <cstdint>

// Logarithms that the encoders take, without the platform's libm, whose last bits differ from one to the next. The
// exponential is declared in layout.h, because decoding needs it.
namespace cortiq::codec {

/// log2f of the positive finite halves 0x0001 … 0x7BFF by pattern, in the results the format was defined with.
const float* log2_of_halves() noexcept;

/// log2 of a positive normal single, rounded to single.
float log2_of(float value) noexcept;

}  // namespace cortiq::codec
