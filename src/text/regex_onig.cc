#include "text/regex_onig.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <memory>
#include <mutex>

#include "base/error.h"
#include "text/regex_tree.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

// Backtracking that needs more than this is an error, never "no match".
constexpr unsigned long kRetriesPerMatch = 10'000'000, kRetriesPerSearch = 40'000'000;
constexpr unsigned kMatchStack = 1'000'000, kParseDepth = 250;

const OnigUChar* bytes(const char* text) { return reinterpret_cast<const OnigUChar*>(text); }

std::string message(int code, OnigErrorInfo* info = nullptr) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(buffer, code, info);
  return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
}

void append_ranges(std::string& out, const CodeSet& set) {
  for (const CodeRange& range : set) {
    const auto first = static_cast<uint32_t>(range.first), last = static_cast<uint32_t>(range.last);
    // Surrogates are no characters there.
    if (first <= 0xDFFF && last >= 0xD800) {
      if (first < 0xD800) out += fmt::format("\\x{{{:x}}}-\\x{{d7ff}}", first);
      if (last > 0xDFFF) out += fmt::format("\\x{{e000}}-\\x{{{:x}}}", last);
    } else {
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", first, last);
    }
  }
}

}  // namespace

std::string spell_out_classes(std::string_view pattern) {
  std::string out;
  int brackets = 0;
  for (size_t at = 0; at < pattern.size();) {
    RegexClassReader reader(pattern, at);
    if (pattern[at] == '\\') {
      if (const auto set = reader.escape()) {
        if (brackets == 0) out += '[';
        append_ranges(out, *set);
        if (brackets == 0) out += ']';
        at = reader.at();
        continue;
      }
      const std::string_view pair = pattern.substr(at, 2);
      if (brackets == 0 && (pair == "\\b" || pair == "\\B")) {
        std::string word = "[";
        append_ranges(word, *named_class("\\w"));
        word += ']';
        out += pair == "\\b" ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word)
                             : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
        at += 2;
        continue;
      }
      out.append(pair);
      at += pair.size();
      continue;
    }
    if (brackets > 0 && pattern.substr(at, 2) == "[:") {
      const size_t close = pattern.find(":]", at + 2);
      const bool negated = at + 2 < pattern.size() && pattern[at + 2] == '^';
      if (close != std::string_view::npos) {
        const size_t name = at + 2 + (negated ? 1 : 0);
        const CodeSet* set = named_class("[:" + std::string(pattern.substr(name, close - name)) + ":]");
        if (set != nullptr) {
          append_ranges(out, negated ? complement(*set) : *set);
          at = close + 2;
          continue;
        }
      }
    }
    if (pattern[at] == '[') {
      ++brackets;
    } else if (pattern[at] == ']' && brackets > 0) {
      --brackets;
    }
    out += pattern[at++];
  }
  return out;
}

OnigPattern::OnigPattern(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {
  static std::mutex compiling;  // the library's initialisation and its global limits are not safe from several threads
  const std::lock_guard lock(compiling);
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  onig_set_parse_depth_limit(kParseDepth);
  const std::string spelled = spell_out_classes(pattern);
  OnigErrorInfo info{};
  const int code = onig_new(&regex_, bytes(spelled.data()), bytes(spelled.data() + spelled.size()), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
  if (code != ONIG_NORMAL) {
    regex_ = nullptr;
    fail(ErrorKind::Parse, "{}: '{}' is not a regular expression: {}", where_, printable(pattern_),
         printable(message(code, &info)));
  }
}

OnigPattern::~OnigPattern() {
  if (regex_ != nullptr) onig_free(regex_);
}

bool OnigPattern::find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  const std::unique_ptr<OnigMatchParam, decltype(&onig_free_match_param)> limits(onig_new_match_param(),
                                                                                 &onig_free_match_param);
  onig_initialize_match_param(limits.get());
  onig_set_retry_limit_in_match_of_match_param(limits.get(), kRetriesPerMatch);
  onig_set_retry_limit_in_search_of_match_param(limits.get(), kRetriesPerSearch);
  onig_set_match_stack_limit_size_of_match_param(limits.get(), kMatchStack);
  const auto release = [](OnigRegion* region) { onig_region_free(region, 1); };
  const std::unique_ptr<OnigRegion, decltype(release)> region(onig_region_new(), release);
  const OnigUChar* first = bytes(text.data());
  const OnigUChar* last = first + text.size();
  const int at =
      onig_search_with_param(regex_, first, last, first + from, last, region.get(), ONIG_OPTION_NONE, limits.get());
  if (at == ONIG_MISMATCH) return false;
  if (at < 0) {
    fail(ErrorKind::Parse, "{}: the pattern '{}' could not be matched on a text of {} bytes: {}", where_,
         printable(pattern_), text.size(), message(at));
  }
  begin = static_cast<size_t>(region->beg[0]);
  end = static_cast<size_t>(region->end[0]);
  return true;
}

}  // namespace cortiq::text
