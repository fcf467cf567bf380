#include "text/jinja/lexer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

constexpr size_t kLargest = size_t{1} << 20;  // forty times the largest template known
constexpr size_t kMostTokens = 200'000;

// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool digit(char c) { return c >= '0' && c <= '9'; }
int hex_value(char c) {
  if (digit(c)) return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}
bool word_code(char32_t code) { return (properties(code) & (kAlphanumeric | kIdentifierPart)) != 0; }

}  // namespace

Lexer::Lexer(std::string_view source, std::string_view what) : what_(what) {
  if (source.size() > kLargest) fail(ErrorKind::Parse, "{}: the template is larger than {} bytes", what, kLargest);
  if (!valid_utf8(source)) fail(ErrorKind::Parse, "{}: the template is not valid UTF-8", what);
  source_ = normalize(source);
}

void Lexer::fail_at(size_t offset, const std::string& message) const {
  const std::string_view before = std::string_view(source_).substr(0, std::min(offset, source_.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  fail(ErrorKind::Parse, "{}:{}:{}: {}", what_, line, count_codes(before.substr(start)) + 1, message);
}

void Lexer::put(Token::Type type, std::string text, size_t offset) {
  for (; counted_ < offset; ++counted_) line_ += source_[counted_] == '\n';
  if (tokens_.size() >= kMostTokens) fail_at(offset, "the template is too long");
  tokens_.push_back({type, std::move(text), line_, offset});
}

std::vector<Token> Lexer::run() {
  while (at_ < source_.size()) root();
  put(Token::Type::End, "", source_.size());
  return std::move(tokens_);
}

void Lexer::skip_space() {
  const std::string_view rest = std::string_view(source_).substr(at_);
  at_ += rest.size() - strip(rest, {}, true, false).size();
}

// Text before a tag: '-' strips its white space; without sign, a tag that stands alone on its line takes its
// indentation.
void Lexer::data(size_t begin, size_t end, char sign, bool variable) {
  std::string_view text = std::string_view(source_).substr(begin, end - begin);
  if (sign == '-') {
    text = strip(text, {}, false, true);
  } else if (sign != '+' && !variable) {
    const size_t newline = text.rfind('\n');
    const size_t start = newline == text.npos ? 0 : newline + 1;
    if ((start > 0 || line_starting_) && strip(text.substr(start), {}, true, false).empty())
      text = text.substr(0, start);
  }
  if (!text.empty()) put(Token::Type::Data, std::string(text), begin);
}

void Lexer::root() {
  const size_t begin = at_;
  size_t open = source_.find('{', at_);
  while (open != source_.npos &&
         (open + 1 >= source_.size() || std::string_view("%{#").find(source_[open + 1]) == std::string_view::npos)) {
    open = source_.find('{', open + 1);
  }
  if (open == source_.npos) {
    put(Token::Type::Data, source_.substr(begin), begin);
    at_ = source_.size();
    return;
  }
  const char kind = source_[open + 1];
  at_ = open + 2;
  const char sign = at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+') ? source_[at_++] : '\0';
  data(begin, open, sign, kind == '{');
  line_starting_ = false;
  if (kind == '#') return comment();
  if (kind == '{') {
    put(Token::Type::VariableBegin, "", open);
    return tag(Token::Type::VariableEnd);
  }
  const size_t inside = at_;
  skip_space();
  if (at("raw")) {
    at_ += 3;
    skip_space();
    if (at("-%}") || at("%}")) return raw();
  }
  at_ = inside;
  put(Token::Type::BlockBegin, "", open);
  tag(Token::Type::BlockEnd);
}

void Lexer::comment() {
  const size_t begin = at_;
  const size_t close = source_.find("#}", at_);
  if (close == source_.npos) {
    if (begin < source_.size()) fail_at(begin, "Missing end of comment tag");
    return;
  }
  at_ = close + 2;
  // '-' strips what follows, '+' keeps it; both may be the comment's last character only if it is its own.
  const char sign = close > begin ? source_[close - 1] : '\0';
  if (sign == '-') {
    skip_space();
  } else if (sign != '+' && at("\n")) {
    ++at_;
  }
  line_starting_ = source_[at_ - 1] == '\n';
}

void Lexer::raw() {
  if (source_[at_] == '-') {
    at_ += 3;
    skip_space();
  } else {
    at_ += 2;
  }
  line_starting_ = source_[at_ - 1] == '\n';
  const size_t begin = at_;
  for (size_t open = source_.find("{%", at_); open != source_.npos; open = source_.find("{%", open + 1)) {
    at_ = open + 2;
    const char sign = at("-") || at("+") ? source_[at_++] : '\0';
    skip_space();
    if (!at("endraw")) continue;
    at_ += 6;
    skip_space();
    const char closing = at("-%}") || at("+%}") ? source_[at_++] : '\0';
    if (!at("%}")) continue;
    at_ += 2;
    data(begin, open, sign, false);
    if (closing == '-') {
      skip_space();
    } else if (closing == '\0' && at("\n")) {
      ++at_;
    }
    line_starting_ = source_[at_ - 1] == '\n';
    return;
  }
  at_ = source_.size();
  if (begin < source_.size()) fail_at(begin, "Missing end of raw directive");
}

// The end of the tag, if it stands here.
bool Lexer::ends_tag(Token::Type end) {
  if (!open_.empty()) return false;
  const bool block = end == Token::Type::BlockEnd;
  const std::string_view close = block ? "%}" : "}}";
  const size_t begin = at_;
  const bool minus = at(block ? "-%}" : "-}}"), plus = block && at("+%}");
  if (!minus && !plus && !at(close)) return false;
  at_ += close.size() + (minus || plus ? 1 : 0);
  if (minus) {
    skip_space();
  } else if (block && !plus && at("\n")) {
    ++at_;
  }
  put(end, "", begin);
  line_starting_ = source_[at_ - 1] == '\n';
  return true;
}

void Lexer::tag(Token::Type end) {
  open_.clear();
  for (;;) {
    if (ends_tag(end)) return;
    const size_t before = at_;
    skip_space();
    if (at_ != before) continue;
    if (at_ >= source_.size()) return;
    const char c = source_[at_];
    if (digit(c)) {
      number();
    } else if (word_code(decode_utf8(std::string_view(source_).substr(at_)).code)) {
      word();
    } else if (c == '\'' || c == '"') {
      quoted();
    } else {
      punctuation();
    }
  }
}

void Lexer::word() {
  const size_t begin = at_;
  while (at_ < source_.size()) {
    const Decoded now = decode_utf8(std::string_view(source_).substr(at_));
    if (!word_code(now.code)) break;
    at_ += now.size;
  }
  const std::string name = source_.substr(begin, at_ - begin);
  const bool good = (properties(decode_utf8(name).code) & kIdentifierStart) != 0 && all_have(name, kIdentifierPart);
  if (!good) fail_at(begin, "Invalid character in identifier");
  put(Token::Type::Name, name, begin);
}

void Lexer::number() {
  const size_t begin = at_;
  std::string digits;
  const auto run = [&](const auto& good) {  // digits with single '_' between them
    bool some = false;
    while (at_ < source_.size()) {
      const bool separated = source_[at_] == '_' && some && at_ + 1 < source_.size() && good(source_[at_ + 1]);
      if (!separated && !good(source_[at_])) break;
      if (separated) ++at_;
      digits += source_[at_++];
      some = true;
    }
    return some;
  };
  const char letter = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
  if (source_[at_] == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
    const size_t first = at_ + 2 + (at_ + 2 < source_.size() && source_[at_ + 2] == '_' ? 1 : 0);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    const auto good = [&](char c) { return hex_value(c) >= 0 && hex_value(c) < base; };
    if (first < source_.size() && good(source_[first])) {
      at_ = first;
      digits = std::string("0") + letter;
      run(good);
      return put(Token::Type::Integer, digits, begin);
    }
  }
  run(digit);
  const bool member = begin > 0 && source_[begin - 1] == '.';  // list.0.1: not a float
  const size_t whole = at_;
  bool real = false;
  if (!member) {
    if (at_ + 1 < source_.size() && source_[at_] == '.' && digit(source_[at_ + 1])) {
      digits += source_[at_++];
      real = run(digit);
    }
    const size_t mantissa = at_;
    const std::string before = digits;
    if (at_ < source_.size() && (source_[at_] | 0x20) == 'e') {
      digits += 'e';
      ++at_;
      if (at_ < source_.size() && (source_[at_] == '+' || source_[at_] == '-')) digits += source_[at_++];
      if (run(digit)) {
        real = true;
      } else {
        at_ = mantissa;
        digits = before;
      }
    }
  }
  if (real) return put(Token::Type::Float, digits, begin);
  at_ = whole;
  if (digits[0] == '0') {  // a decimal integer has no leading zero: 01 is 0, then 1
    const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
    if (zeros < digits.size()) at_ = begin + zeros;
    digits.assign(1, '0');
  }
  put(Token::Type::Integer, digits, begin);
}

void Lexer::quoted() {
  const size_t begin = at_;
  const char quote = source_[at_++];
  while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
  if (at_ >= source_.size()) fail_at(begin, fmt::format("unexpected char {}: the string is not closed", quote));
  put(Token::Type::String, unescape(begin + 1, at_), begin);
  ++at_;
}

// Python's string escapes; an unknown one stays as it is written.
std::string Lexer::unescape(size_t begin, size_t end) const {
  std::string out;
  for (size_t i = begin; i < end;) {
    if (source_[i] != '\\') {
      out += source_[i++];
      continue;
    }
    const size_t start = i++;
    const char c = source_[i];
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t simple = kLetters.find(c); simple != kLetters.npos) {
      out += kMeanings[simple];
      ++i;
    } else if (c == '\n') {
      ++i;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      for (int n = 0; n < 3 && i < end && source_[i] >= '0' && source_[i] <= '7'; ++n)
        code = code * 8 + static_cast<char32_t>(source_[i++] - '0');
      append_utf8(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const int count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t code = 0;
      ++i;
      for (int n = 0; n < count; ++n, ++i) {
        if (i >= end || hex_value(source_[i]) < 0) fail_at(start, fmt::format("truncated \\{} escape", c));
        code = code << 4 | static_cast<char32_t>(hex_value(source_[i]));
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        fail_at(start, "illegal Unicode character in an escape");
      append_utf8(out, code);
    } else if (c == 'N') {
      fail_at(start, "characters by name (\\N) are not supported");
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      // Python escapes the character first and then finds its backslash escaped.
      const Decoded now = decode_utf8(std::string_view(source_).substr(i));
      out += now.code < 0x100     ? fmt::format("\\x{:02x}", static_cast<uint32_t>(now.code))
             : now.code < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(now.code))
                                  : fmt::format("\\U{:08x}", static_cast<uint32_t>(now.code));
      i += now.size;
    } else {
      out += '\\';
      out += c;
      ++i;
    }
  }
  return out;
}

void Lexer::punctuation() {
  constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
  const size_t begin = at_;
  for (const std::string_view two : kTwo) {
    if (at(two)) {
      at_ += 2;
      return put(Token::Type::Operator, std::string(two), begin);
    }
  }
  const char c = source_[at_];
  if (kOne.find(c) == kOne.npos) {
    const size_t size = decode_utf8(std::string_view(source_).substr(at_)).size;
    fail_at(begin, fmt::format("unexpected char '{}'", printable(source_.substr(at_, size))));
  }
  if (c == '(' || c == '[' || c == '{') {
    open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) fail_at(begin, fmt::format("unexpected '{}'", c));
    if (open_.back() != c) fail_at(begin, fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
    open_.pop_back();
  }
  ++at_;
  put(Token::Type::Operator, std::string(1, c), begin);
}

}  // namespace cortiq::text::jinja
