#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cortiq {

/// One code point at the start of a text. `valid` is false for overlong forms, surrogates, values above U+10FFFF and
/// truncated sequences; then `size` is the length of the maximal ill-formed part (at least 1), as Unicode's
/// substitution rule counts it, and `code` is U+FFFD.
struct Decoded {
  char32_t code = 0xFFFD;
  size_t size = 1;
  bool valid = false;
};

/// Decodes the first code point; text must not be empty.
Decoded decode_utf8(std::string_view text) noexcept;

/// Appends one code point (must be a scalar value).
void append_utf8(std::string& out, char32_t code);

/// True if the whole text is well-formed UTF-8.
bool valid_utf8(std::string_view text) noexcept;

/// The text with every maximal ill-formed part replaced by U+FFFD, as Rust's from_utf8_lossy and Python do.
std::string replace_invalid_utf8(std::string_view text);

/// Length in bytes of an incomplete but so far well-formed sequence at the end of the text (0 to 3).
size_t incomplete_utf8_suffix(std::string_view text) noexcept;

}  // namespace cortiq
