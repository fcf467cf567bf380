#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

bool blank(char32_t c) { return (c >= 0x9 && c <= 0xD) || c == ' '; }
bool word(char32_t c) { return c == '_' || (properties(c) & kAlphanumeric) != 0; }
bool letter(char32_t c) { return word(c) && (properties(c) & kDecimal) == 0; }
bool word_or_punctuation(char32_t c) {
  return word(c) || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) != std::string_view::npos);
}

/// Cuts a line into words, runs of white space and, at hyphens, parts of words (Python's textwrap).
class Chunks {
 public:
  explicit Chunks(const std::u32string& text) : text_(text) {}

  std::vector<std::u32string> run(bool hyphens) {
    std::vector<std::u32string> result;
    for (size_t at = 0; at < text_.size();) {
      const size_t end = hyphens ? chunk_end(at) : simple_end(at);
      result.push_back(text_.substr(at, end - at));
      at = end;
    }
    return result;
  }

 private:
  char32_t code(size_t at) const { return at < text_.size() ? text_[at] : U' '; }

  size_t simple_end(size_t at) const {
    const bool space = blank(text_[at]);
    while (at < text_.size() && blank(text_[at]) == space) ++at;
    return at;
  }

  // End of a dash of two or more hyphens that a word follows, or 0.
  size_t dash_end(size_t at) const {
    size_t end = at;
    while (code(end) == '-') ++end;
    return end - at >= 2 && end < text_.size() && word(text_[end]) ? end : 0;
  }

  bool breaks_after_hyphen(size_t hyphen) const {
    const auto is_letter = [&](size_t back) { return hyphen >= back && letter(text_[hyphen - back]); };
    const bool before = (is_letter(2) && is_letter(1)) || (is_letter(3) && text_[hyphen - 2] == '-' && is_letter(1));
    if (!before || !letter(code(hyphen + 1))) return false;
    return letter(code(hyphen + 2)) || (code(hyphen + 2) == '-' && letter(code(hyphen + 3)));
  }

  size_t chunk_end(size_t at) const {
    if (blank(text_[at])) return simple_end(at);
    if (at > 0 && word_or_punctuation(text_[at - 1])) {
      if (const size_t end = dash_end(at)) return end;
    }
    for (size_t end = at + 1;; ++end) {
      if (code(end) == '-' && end < text_.size() && breaks_after_hyphen(end)) return end + 1;
      if (end >= text_.size() || blank(text_[end])) return end;
      if (word_or_punctuation(text_[end - 1]) && dash_end(end) != 0) return end;
    }
  }

  const std::u32string& text_;
};

bool empty(const std::u32string& chunk) { return std::all_of(chunk.begin(), chunk.end(), is_space); }

}  // namespace

std::vector<std::string> wrap_words(Runtime& runtime, std::string_view text, int64_t width, bool break_long,
                                    bool break_hyphens) {
  if (width <= 0) raise("invalid width {} (must be > 0)", width);
  runtime.step(text.size());
  runtime.heap.demand(text.size() * 40);
  std::u32string codes;
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    codes += now.code;
    at += now.size;
  }
  const auto room = static_cast<size_t>(std::min<int64_t>(width, 1 << 30));
  std::vector<std::u32string> chunks = Chunks(codes).run(break_hyphens);
  std::reverse(chunks.begin(), chunks.end());
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    std::vector<std::u32string> line;
    size_t used = 0;
    if (!lines.empty() && empty(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && used + chunks.back().size() <= room) {
      used += chunks.back().size();
      line.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > room) {
      std::u32string& chunk = chunks.back();
      if (break_long) {
        size_t end = room - used;
        const size_t hyphen = break_hyphens && end > 0 ? chunk.rfind(U'-', end - 1) : chunk.npos;
        if (hyphen != chunk.npos && hyphen > 0 && chunk.find_first_not_of(U'-') < hyphen) end = hyphen + 1;
        line.push_back(chunk.substr(0, end));
        runtime.step(chunk.size() / 8);
        chunk.erase(0, end);
      } else if (line.empty()) {
        line.push_back(std::move(chunk));
        chunks.pop_back();
      }
    }
    if (!line.empty() && empty(line.back())) line.pop_back();
    if (line.empty()) continue;
    std::string out;
    for (const std::u32string& part : line) {
      for (const char32_t c : part) append_utf8(out, c);
    }
    lines.push_back(std::move(out));
  }
  return lines;
}

}  // namespace cortiq::text::jinja
