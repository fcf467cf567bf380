#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/fields.h"
#include "text/regex.h"

namespace cortiq::text {

/// What Split and Replace look for: {"String": text} or {"Regex": pattern}.
class Pattern {
 public:
  /// Reads the member `name` of a component.
  Pattern(const Fields& fields, const char* name);
  static Pattern regex(std::string_view pattern, std::string_view where);

  /// Calls visit(begin, end) for every match, from left to right.
  template <class Visit>
  void for_each(std::string_view text, Visit visit) const {
    if (!regex_) {
      for (size_t at = text.find(literal_); at != std::string_view::npos;
           at = text.find(literal_, at + literal_.size())) {
        visit(at, at + literal_.size());
      }
      return;
    }
    // The genuine library does not even try its pattern on an empty text.
    if (text.empty()) return;
    RegexMatches matches(*regex_, text);
    for (size_t begin = 0, end = 0; matches.next(begin, end);) visit(begin, end);
  }

  /// The text looked for, if it is one.
  const std::string* literal() const noexcept { return regex_ ? nullptr : &literal_; }

 private:
  Pattern() = default;

  std::string literal_;  // never empty without regex_
  std::shared_ptr<const Regex> regex_;
};

}  // namespace cortiq::text
