#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace cortiq::cmf {

/// JSON whose values survive being written again (§1.1: what a reader does not know is somebody else's).
///
/// Strict as parse_json(): UTF-8, no duplicate keys, nesting of at most 256, nothing but one value. A number that no
/// 64-bit integer or double gives back digit for digit (1e400, an integer of 30 digits), and a string with an unpaired
/// surrogate escape, are kept as the text they were written with: a Json of binary type. Typed access never accepts
/// such a string; number() accepts such a number.
Json parse_lossless_json(std::string_view text, std::string_view what);

/// Compact JSON text. Parse for a string that is not UTF-8 and a double that is not finite, which JSON cannot hold.
std::string write_json(const Json& value);

/// The value of a number kept in either form, or nothing for other types and for numbers beyond a double.
bool read_double(const Json& value, double& out) noexcept;

}  // namespace cortiq::cmf
