#pragma once
#include <string>
#include <string_view>

struct re_pattern_buffer;

namespace cortiq::text {

/// A pattern compiled by Oniguruma, its character classes spelled out as the genuine library's tables say.
class OnigPattern {
 public:
  OnigPattern(std::string_view pattern, std::string_view where);
  ~OnigPattern();
  OnigPattern(const OnigPattern&) = delete;
  OnigPattern& operator=(const OnigPattern&) = delete;

  /// The leftmost match at or after `from`; Parse, naming the pattern, if a limit is exceeded.
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end) const;

 private:
  std::string pattern_, where_;
  re_pattern_buffer* regex_ = nullptr;
};

/// The pattern with \p{…}, \s, \w, \d, \h and POSIX brackets replaced by ranges of the tables, \b by look-around over
/// them; whatever else it holds stays.
std::string spell_out_classes(std::string_view pattern);

}  // namespace cortiq::text
