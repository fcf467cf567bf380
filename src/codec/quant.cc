#include "codec/quant.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/nearest.h"
#include "codec/layout.h"

namespace cortiq::codec {
namespace {

struct Option {
  std::string_view name;
  Dtype dtype;
  bool error_diffusion;
  std::string_view label;  ///< header.quant_type (facts §4: a closed list that other readers insist on)
  std::array<std::string_view, 2> aliases;
};

// facts §9.2; vbit8 is the dtype without row offsets, which some older files hold.
constexpr Option kOptions[] = {
    {"f32", Dtype::F32, false, "F32", {"fp32", "float32"}},
    {"bf16", Dtype::BF16, false, "BF16", {"bfloat16", ""}},
    {"f16", Dtype::F16, false, "F16", {"fp16", "float16"}},
    {"q8", Dtype::Q8Row, false, "Q8_ROW", {"q8_row", "q8row"}},
    {"q8_2f", Dtype::Q8TwoField, false, "Q8_2F", {"q82f", "q8f"}},
    {"q4", Dtype::Q4Block, false, "Q4_BLOCK", {"q4_block", "q4block"}},
    {"q4t", Dtype::Q4Tiled, false, "Q4_BLOCK", {"q4_tiled", ""}},
    {"q4tp", Dtype::Q4tp, false, "Q4_BLOCK", {"q4t_pred", ""}},
    {"vbit", Dtype::VbitRo, false, "VBIT", {"v_bit", "vbit_ro"}},
    {"vbit8", Dtype::Vbit, false, "VBIT", {"", ""}},
    {"q1", Dtype::Q1, false, "VBIT", {"", ""}},
    {"q1p", Dtype::Q1, true, "VBIT", {"q1_ptq", ""}},
    {"q1s", Dtype::Q1s, false, "VBIT", {"q1_mask", ""}},
    {"q1t", Dtype::Q1t, false, "VBIT", {"q1_ternary", ""}},
};

bool is_float(Dtype dtype) { return dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16; }

}  // namespace

Quant parse_quant(std::string_view text) {
  std::string wish(text);
  std::transform(wish.begin(), wish.end(), wish.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  std::vector<std::string_view> names;
  for (const Option& option : kOptions) {
    names.push_back(option.name);
    if (!wish.empty() && (wish == option.name || wish == option.aliases[0] || wish == option.aliases[1])) {
      return {option.dtype, option.error_diffusion, option.name};
    }
  }
  fail(ErrorKind::Usage, "'{}' is no quantisation; did you mean '{}'? There are {}", printable(text, 40),
       nearest(wish, names), fmt::join(names, ", "));
}

std::string_view quant_label(const Quant& quant) {
  for (const Option& option : kOptions) {
    if (option.dtype == quant.dtype) return option.label;
  }
  fail(ErrorKind::Usage, "a file as a whole cannot be {}", name(quant.dtype));
}

Choice choose(const Quant& quant, const Shape& shape) {
  if (is_float(quant.dtype)) return {quant.dtype, ""};
  if (shape.rank != 2) return {Dtype::F16, "not a matrix"};
  if (shape.elements() < kGroup) return {Dtype::F16, "fewer than 32 elements"};
  if (const auto reason = of(quant.dtype).refuses(shape)) {
    return {Dtype::Q8TwoField, fmt::format("{} {}", name(quant.dtype), *reason)};
  }
  return {quant.dtype, ""};
}

}  // namespace cortiq::codec
