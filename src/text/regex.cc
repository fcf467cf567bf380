#include "text/regex.h"

#include "base/error.h"
#include "text/regex_onig.h"
#include "text/regex_tree.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

// Steps that matching may take beyond a multiple of the text: a pattern that needs more is quadratic on this text.
constexpr uint64_t kSpareSteps = 200'000'000, kStepsPerByte = 64;

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {
  if (const auto tree = RegexTree::parse(pattern)) dfa_ = Dfa::build(*tree);
  if (!dfa_) onig_ = std::make_unique<OnigPattern>(pattern, where);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

bool RegexMatches::find(size_t from, size_t& begin, size_t& end) {
  if (!regex_.dfa_) return regex_.onig_->find(text_, from, begin, end);
  const Dfa& dfa = *regex_.dfa_;
  for (begin = from;;) {
    end = dfa.match(text_, begin, steps_);
    if (end != std::string_view::npos) return true;
    if (begin >= text_.size()) return false;
    begin += code_at(text_, begin).size;
    if (steps_ > kSpareSteps + kStepsPerByte * text_.size()) {
      fail(ErrorKind::Parse, "{}: the pattern '{}' takes more than {} steps on a text of {} bytes", regex_.where_,
           printable(regex_.pattern_), kSpareSteps, text_.size());
    }
  }
}

bool RegexMatches::next(size_t& begin, size_t& end) {
  while (from_ <= text_.size() && find(from_, begin, end)) {
    if (begin == end && end == last_end_) {
      // An empty match at the end of the one before does not count.
      from_ = from_ < text_.size() ? from_ + code_at(text_, from_).size : from_ + 1;
      continue;
    }
    from_ = end;
    last_end_ = end;
    return true;
  }
  from_ = text_.size() + 1;
  return false;
}

}  // namespace cortiq::text
