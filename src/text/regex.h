#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/regex_dfa.h"

namespace cortiq::text {

class OnigPattern;

/// A regular expression of a tokenizer.json: Oniguruma's syntax (Ruby dialect) with the genuine library's character
/// classes. Patterns without look-around beyond one character, atomic groups and back references become a table
/// (regex_dfa.h) that reads each character once per attempt; Oniguruma serves the rest. Immutable, safe from several
/// threads.
class Regex {
 public:
  /// Parse, naming `where` and the pattern, if it is none.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;

  bool linear() const noexcept { return dfa_.has_value(); }

 private:
  friend class RegexMatches;
  std::string pattern_, where_;
  std::optional<Dfa> dfa_;
  std::unique_ptr<OnigPattern> onig_;
};

/// The matches of a pattern in a text, from left to right, empty ones included but none directly after the one before.
/// Parse, naming the pattern, when a limit on the work is exceeded: that is never taken for "no match".
class RegexMatches {
 public:
  RegexMatches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}

  /// False at the end; otherwise the match is [begin, end).
  bool next(size_t& begin, size_t& end);

 private:
  bool find(size_t from, size_t& begin, size_t& end);

  const Regex& regex_;
  std::string_view text_;
  size_t from_ = 0;
  size_t last_end_ = std::string_view::npos;  // of the last accepted match
  uint64_t steps_ = 0;
};

}  // namespace cortiq::text
