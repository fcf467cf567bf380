#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/code_map.h"
#include "text/unicode.h"

namespace cortiq::text {

struct RegexTree;

/// A regular expression as one table: states × character classes → next state. The match is the one a backtracking
/// matcher finds first (a state is the list of its threads in order of preference, cut at the first that has
/// matched), so greedy, lazy and ordered alternatives keep their meaning. Assertions look at the class before and the
/// class after a position: an entry knows both.
class Dfa {
 public:
  /// Nothing if the table would grow beyond what is sensible.
  static std::optional<Dfa> build(const RegexTree& tree);

  /// The end of the match that begins at `from`, or npos. Adds the number of characters read to `steps`.
  size_t match(std::string_view text, size_t from, uint64_t& steps) const noexcept {
    size_t end = std::string_view::npos, at = from;
    uint32_t state = starts_[from == 0 ? edge_ : looks_back_ ? class_of(code_before(text, from).code) : edge_];
    while (at < text.size()) {
      const auto byte = static_cast<unsigned char>(text[at]);
      uint32_t kind, size = 1;
      if (byte < 0x80) {
        kind = ascii_[byte];
      } else {
        const CodeAt one = code_at(text, at);
        kind = class_of(one.code);
        size = one.size;
      }
      const uint32_t entry = table_[state * stride_ + kind];
      if (entry & kMatched) end = at;
      state = entry >> 1;
      ++steps;
      if (state == kDead) return end;
      at += size;
    }
    if (table_[state * stride_ + edge_] & kMatched) end = at;
    return end;
  }

 private:
  static constexpr uint32_t kMatched = 1;  ///< of an entry: the match may end before this character
  static constexpr uint32_t kDead = 0;

  uint32_t class_of(char32_t code) const noexcept { return classes_[code]; }

  CodeMap<uint8_t> classes_;
  std::array<uint8_t, 128> ascii_{};
  std::vector<uint32_t> table_;     // states × stride_: next state << 1 | kMatched
  std::vector<uint32_t> starts_;    // by the class before
  uint32_t stride_ = 0, edge_ = 0;  // edge_: the class of "no character", at both ends of the text
  bool looks_back_ = false;
};

}  // namespace cortiq::text
