#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::cmf {

/// Base64 with the standard alphabet and `=` padding (RFC 4648 §4), as selection payloads use it (§9).
std::string encode_base64(std::span<const uint8_t> bytes);

/// Nothing if the text is anything else: wrong length, foreign characters, padding in the middle.
std::optional<std::vector<uint8_t>> decode_base64(std::string_view text);

}  // namespace cortiq::cmf
