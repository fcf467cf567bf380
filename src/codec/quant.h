#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "codec/codec.h"

namespace cortiq::codec {

/// What `--quant NAME` asks for: a dtype and its encoder's variant.
struct Quant {
  Dtype dtype = Dtype::Q8Row;
  bool error_diffusion = false;  ///< q1p
  std::string_view option;       ///< canonical option name: "q8", "q4tp", …
};

/// Parses an option name and its aliases (FORMAT_FACTS §9.2, plus bf16 and f32); Usage, naming the nearest valid one,
/// for anything else.
Quant parse_quant(std::string_view text);

/// Header label of the whole file (§4 of the facts): Q8_ROW, Q4_BLOCK, Q8_2F, VBIT, BF16, F16, F32.
std::string_view quant_label(const Quant& quant);

/// The dtype a tensor of this shape gets under a quant, with the reason when it is another one than asked for
/// (FORMAT_FACTS §5.13: not 2-D or fewer than 32 elements → f16; columns not a multiple of 32 → q8_2f; …).
struct Choice {
  Dtype dtype;
  std::string reason;  ///< empty when it is what was asked for
};
Choice choose(const Quant& quant, const Shape& shape);

}  // namespace cortiq::codec
