#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/code_map.h"

// What Hugging Face tokenizers believes about code points, probed from the library (tests/data/text/unicode): its
// parts were built with different Unicode versions, and equal ids matter more than one neat version.
namespace cortiq::text {

/// The code points of a class as regular expressions name it: "l" (a property name in lower case without '_', '-' and
/// spaces), "[:alpha:]", "\\s"; null if the tables have no such class.
const CodeSet* named_class(std::string_view name);

enum Trait : uint32_t {
  kPunctuation = 1 << 0,  ///< Punctuation, BertPreTokenizer
  kWhiteSpace = 1 << 1,   ///< WhitespaceSplit, Strip, BertPreTokenizer, \s
  kNumeric = 1 << 2,      ///< Digits
  kWord = 1 << 3,         ///< \w of Whitespace and of single_word
  kAccent = 1 << 4,       ///< removed by StripAccents
  kBertRemoved = 1 << 5,  ///< removed by BertNormalizer's clean_text
  kBertSpace = 1 << 6,    ///< becomes a space there
  kBertChinese = 1 << 7,  ///< gets spaces around it
  kBertAccent = 1 << 8,   ///< removed by BertNormalizer's strip_accents, after NFD
  kNmtRemoved = 1 << 9,
  kNmtSpace = 1 << 10,
  kHasCanonical = 1 << 11,      ///< has a canonical decomposition, Hangul syllables included
  kHasCompatibility = 1 << 12,  ///< has a compatibility decomposition that differs from the canonical one
  kCombines = 1 << 13,          ///< has a combining class other than 0
  kComposesBack = 1 << 14,      ///< may be the second of a composition pair
  kHasLower = 1 << 15,
};

/// Traits of a code point, a union of the bits above.
uint32_t traits(char32_t code) noexcept;

uint32_t combining_class(char32_t code) noexcept;

/// The full decomposition or lower case; empty if it is the code point itself. Hangul syllables: see decompose_hangul.
std::span<const uint32_t> canonical_mapping(char32_t code) noexcept;
std::span<const uint32_t> compatibility_mapping(char32_t code) noexcept;  ///< the canonical one where there is no other
std::span<const uint32_t> lower_mapping(char32_t code) noexcept;

/// The composite of a canonical pair, or 0.
char32_t compose(char32_t first, char32_t second) noexcept;

/// A number for the script as UnicodeScripts tells them apart, or -1 for none.
int script_of(char32_t code) noexcept;

/// The code point at a position of valid UTF-8, and its length in bytes.
struct CodeAt {
  char32_t code;
  uint32_t size;
};
inline CodeAt code_at(const char* p) noexcept {
  const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  const uint32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  if (b < 0xE0) return {(b & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (b < 0xF0) return {(b & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(b & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}
inline CodeAt code_at(std::string_view valid, size_t at) noexcept { return code_at(valid.data() + at); }

/// The code point that ends at `end` (> 0) of valid UTF-8.
inline CodeAt code_before(std::string_view valid, size_t end) noexcept {
  size_t at = end - 1;
  while ((static_cast<unsigned char>(valid[at]) & 0xC0) == 0x80) --at;
  return code_at(valid, at);
}

}  // namespace cortiq::text
