#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cortiq::text::jinja {

/// What Python's str knows about a code point (unicode_tables.inc).
enum Property : uint32_t {
  kAlpha = 1,
  kDecimal = 2,
  kDigit = 4,
  kNumeric = 8,
  kLowercase = 16,
  kUppercase = 32,
  kTitlecase = 64,
  kPrintable = 128,
  kIgnorable = 256,  // skipped when a final sigma is looked for
  kIdentifierStart = 512,
  kIdentifierPart = 1024,
};
constexpr uint32_t kAlphanumeric = kAlpha | kDecimal | kDigit | kNumeric;
constexpr uint32_t kCased = kLowercase | kUppercase | kTitlecase;

uint32_t properties(char32_t code) noexcept;
bool is_space(char32_t code) noexcept;
/// Value of a decimal digit of any script, or -1.
int decimal_value(char32_t code) noexcept;

/// Python's str methods of these names (full mappings, final sigma).
std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swapcase(std::string_view text);
std::string casefold(std::string_view text);

bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);
/// Not empty, and every code point has one of `wanted`.
bool all_have(std::string_view text, uint32_t wanted);

}  // namespace cortiq::text::jinja
