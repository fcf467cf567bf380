#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/code_map.h"

namespace cortiq::text {

/// A parsed pattern. Nodes refer to each other by index.
struct RegexTree {
  enum class Kind : uint8_t { Empty, Set, Concat, Alternate, Repeat, Assert };
  enum class Test : uint8_t {
    Ahead,
    NotAhead,
    Behind,
    NotBehind,
    LineBegin,
    LineEnd,
    TextBegin,
    TextEnd,
    Word,
    NotWord
  };
  static constexpr uint32_t kUnlimited = UINT32_MAX;

  struct Node {
    Kind kind = Kind::Empty;
    Test test = Test::Ahead;         ///< Assert
    bool greedy = true;              ///< Repeat
    uint32_t set = 0;                ///< Set and the first four assertions: index into sets
    uint32_t min = 0, max = 0;       ///< Repeat
    std::vector<uint32_t> children;  ///< Concat, Alternate (in order of preference), Repeat (one)
  };

  std::vector<Node> nodes;
  std::vector<CodeSet> sets;
  uint32_t root = 0;

  /// Nothing for a pattern that is not in the subset: look-around over more than one character, atomic groups,
  /// possessive repeats, back references, case folding of more than ASCII letters, repeats of what may be empty, and
  /// everything that is not a pattern at all.
  static std::optional<RegexTree> parse(std::string_view pattern);
};

CodeSet complement(const CodeSet& set);
CodeSet united(const CodeSet& a, const CodeSet& b);
CodeSet intersection(const CodeSet& a, const CodeSet& b);

/// Reads the classes of a pattern; also used to spell them out for Oniguruma.
class RegexClassReader {
 public:
  RegexClassReader(std::string_view pattern, size_t at) : pattern_(pattern), at_(at) {}

  size_t at() const noexcept { return at_; }

  /// What stands at '\\': a class escape (\s, \p{L}, \P{…}, \d, \w, \h and their negations). Nothing, and no
  /// movement, if it is another escape or an unknown property.
  std::optional<CodeSet> escape();
  /// What stands at '[': a bracket, nested ones, POSIX classes, ranges, && included. Nothing if it is not understood.
  std::optional<CodeSet> bracket(int depth = 0);
  /// One literal character, escaped (\n, \x41, \x{1F600}, \u00e9, \-) or not. Nothing if it is not understood.
  std::optional<char32_t> character();

 private:
  bool more() const noexcept { return at_ < pattern_.size(); }
  char peek(size_t ahead = 0) const noexcept { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) noexcept;
  std::optional<CodeSet> item(int depth);
  std::optional<char32_t> hexadecimal(size_t least, size_t most);

  std::string_view pattern_;
  size_t at_;
};

}  // namespace cortiq::text
