#include <algorithm>

#include "text/regex_tree.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

constexpr int kMaxDepth = 16;

CodeSet normal(CodeSet ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  CodeSet out;
  for (const CodeRange& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

std::string property_name(std::string_view spelled) {
  std::string out;
  for (const char c : spelled) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace

CodeSet complement(const CodeSet& set) {
  CodeSet out;
  char32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) out.push_back({next, kLastCode});
  return out;
}

CodeSet united(const CodeSet& a, const CodeSet& b) {
  CodeSet all = a;
  all.insert(all.end(), b.begin(), b.end());
  return normal(std::move(all));
}

CodeSet intersection(const CodeSet& a, const CodeSet& b) { return complement(united(complement(a), complement(b))); }

bool RegexClassReader::take(std::string_view text) noexcept {
  if (pattern_.substr(at_, text.size()) != text) return false;
  at_ += text.size();
  return true;
}

std::optional<CodeSet> RegexClassReader::escape() {
  const size_t start = at_;
  if (!take("\\") || !more()) return std::nullopt;
  const char letter = pattern_[at_++];
  const CodeSet* found = nullptr;
  bool negated = false;
  if (letter == 'p' || letter == 'P') {
    negated = letter == 'P';
    const size_t close = pattern_.find('}', at_);
    if (take("{") && close != std::string_view::npos) {
      if (take("^")) negated = !negated;
      found = named_class(property_name(pattern_.substr(at_, close - at_)));
      at_ = close + 1;
    }
  } else {
    const char lower = static_cast<char>(letter | 0x20);
    if (lower == 's' || lower == 'd' || lower == 'w' || lower == 'h') {
      negated = letter != lower;
      found = named_class(std::string{'\\', lower});
    }
  }
  if (found == nullptr) {
    at_ = start;
    return std::nullopt;
  }
  return negated ? complement(*found) : *found;
}

std::optional<char32_t> RegexClassReader::hexadecimal(size_t least, size_t most) {
  char32_t value = 0;
  size_t digits = 0;
  for (; digits < most && more(); ++digits, ++at_) {
    const char c = pattern_[at_], lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      break;
    }
  }
  if (digits < least || value > kLastCode || (value >= 0xD800 && value <= 0xDFFF)) return std::nullopt;
  return value;
}

std::optional<char32_t> RegexClassReader::character() {
  if (!more()) return std::nullopt;
  if (pattern_[at_] != '\\') {
    const CodeAt one = code_at(pattern_, at_);
    at_ += one.size;
    return one.code;
  }
  ++at_;
  if (!more()) return std::nullopt;
  const CodeAt one = code_at(pattern_, at_);
  at_ += one.size;
  switch (one.code) {
    case 'n':
      return U'\n';
    case 't':
      return U'\t';
    case 'r':
      return U'\r';
    case 'f':
      return U'\f';
    case 'v':
      return U'\v';
    case 'a':
      return U'\a';
    case 'e':
      return U'\x1B';
    case 'u':
      return hexadecimal(4, 4);
    case 'x': {
      if (take("{")) {
        const auto value = hexadecimal(1, 8);
        if (!value || !take("}")) return std::nullopt;
        return value;
      }
      const auto value = hexadecimal(1, 2);
      // A byte above 7F is part of a raw sequence there, not a code point.
      return value && *value < 0x80 ? value : std::nullopt;
    }
    default:
      break;
  }
  const bool letter_or_digit = (one.code >= '0' && one.code <= '9') || (one.code >= 'A' && one.code <= 'Z') ||
                               (one.code >= 'a' && one.code <= 'z');
  return letter_or_digit ? std::nullopt : std::optional<char32_t>(one.code);
}

std::optional<CodeSet> RegexClassReader::item(int depth) {
  if (pattern_.substr(at_, 2) == "[:") {
    size_t name = at_ + 2;
    const bool negated = name < pattern_.size() && pattern_[name] == '^';
    if (negated) ++name;
    const size_t close = pattern_.find(":]", name);
    // "[:" without its end is an ordinary bracket there; nobody writes it, so it is left to Oniguruma.
    if (close == std::string_view::npos) return std::nullopt;
    const CodeSet* found = named_class("[:" + std::string(pattern_.substr(name, close - name)) + ":]");
    if (found == nullptr) return std::nullopt;
    at_ = close + 2;
    return negated ? complement(*found) : *found;
  }
  if (peek() == '[') return bracket(depth + 1);
  if (peek() == '\\') {
    if (auto set = escape()) return set;
    const char next = peek(1);
    if (next == 'p' || next == 'P' || next == 'b' || next == 'R' || next == 'X') return std::nullopt;
  }
  const auto first = character();
  if (!first) return std::nullopt;
  // A '-' before the closing bracket stands for itself.
  if (peek() != '-' || peek(1) == ']' || peek(1) == '\0') return CodeSet{{*first, *first}};
  ++at_;
  if (peek() == '[' || pattern_.substr(at_, 2) == "&&") return std::nullopt;
  const auto last = character();
  if (!last || *last < *first) return std::nullopt;
  return CodeSet{{*first, *last}};
}

std::optional<CodeSet> RegexClassReader::bracket(int depth) {
  if (depth > kMaxDepth || !take("[")) return std::nullopt;
  const bool negated = take("^");
  // "[]…" is an empty bracket or a literal, depending on options.
  if (peek() == ']') return std::nullopt;
  CodeSet ranges;
  std::optional<CodeSet> left;  // what stands before a "&&"
  const auto close_side = [&] {
    CodeSet side = normal(std::move(ranges));
    ranges.clear();
    return left ? intersection(*left, side) : side;
  };
  while (more() && peek() != ']') {
    if (take("&&")) {
      left = close_side();
      continue;
    }
    const auto set = item(depth);
    if (!set) return std::nullopt;
    ranges.insert(ranges.end(), set->begin(), set->end());
  }
  if (!take("]")) return std::nullopt;
  const CodeSet all = close_side();
  return negated ? complement(all) : all;
}

}  // namespace cortiq::text
