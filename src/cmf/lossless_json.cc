#include "cmf/lossless_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace cortiq::cmf {
namespace {

constexpr size_t kDepth = 256;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Json verbatim(std::string_view text) { return Json::binary(std::vector<uint8_t>(text.begin(), text.end())); }

// A decimal number without notation: its significant digits and the power of ten of the first one.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

Decimal decimal(std::string_view text) {
  Decimal out;
  int64_t point = 0, written = 0;
  bool after_point = false;
  size_t at = text.starts_with('-') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      after_point = true;
      continue;
    }
    if (text[at] == '0' && out.digits.empty()) {
      if (after_point) --point;
      continue;
    }
    out.digits += text[at];
    if (!after_point) ++point;
  }
  if (at < text.size()) {
    const size_t plus = at + 1 < text.size() && text[at + 1] == '+' ? 2 : 1;
    const auto end = text.data() + text.size();
    if (std::from_chars(text.data() + at + plus, end, written).ec != std::errc()) {
      written = text.substr(at + plus).starts_with('-') ? -INT64_MAX / 2 : INT64_MAX / 2;
    }
  }
  while (out.digits.ends_with('0')) out.digits.pop_back();
  if (!out.digits.empty()) out.exponent = point + written;
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Json parse() {
    if (text_.starts_with("\xEF\xBB\xBF")) wrong("begins with a byte-order mark");
    if (!valid_utf8(text_)) wrong("is not UTF-8");
    value();
    // Each turn finishes one element of the innermost open container; nothing recurses on the input.
    while (!open_.empty()) {
      skip_space();
      const bool object = open_.back()->is_object();
      const char close = object ? '}' : ']';
      if (peek() == close) {
        if (after_comma_) wrong("has a comma before a closing bracket");
        ++at_;
        open_.pop_back();
        if (object) keys_.pop_back();
        fresh_ = false;
        continue;
      }
      if (!fresh_ && !after_comma_) {
        expect(',');
        after_comma_ = true;
        continue;
      }
      after_comma_ = fresh_ = false;
      if (object) key();
      value();
    }
    skip_space();
    if (at_ != text_.size()) wrong("has text after its end");
    return std::move(root_);
  }

 private:
  [[noreturn]] void wrong(std::string_view reason) const {
    fail(ErrorKind::Parse, "{}: the JSON {} (byte {})", what_, reason, at_);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  void expect(char c) {
    if (peek() != c) wrong(at_ < text_.size() ? fmt::format("lacks a '{}'", c) : std::string("ends too early"));
    ++at_;
  }

  void key() {
    if (peek() != '"') wrong("has a key that is not a string");
    Json name = string();
    if (name.is_binary()) wrong("has a key with an unpaired surrogate");
    key_ = std::move(name.get_ref<std::string&>());
    if (!keys_.back().insert(key_).second)
      wrong(fmt::format("has the key '{}' twice in one object", printable(key_, 80)));
    skip_space();
    expect(':');
  }

  void value() {
    skip_space();
    switch (peek()) {
      case '{':
      case '[':
        open(peek() == '{' ? Json::object() : Json::array());
        return;
      case '"':
        place(string());
        return;
      case 't':
        return literal("true", true);
      case 'f':
        return literal("false", false);
      case 'n':
        return literal("null", nullptr);
      default:
        place(number());
    }
  }

  void literal(std::string_view word, Json meaning) {
    if (text_.substr(at_, word.size()) != word) wrong("has an unknown word");
    at_ += word.size();
    place(std::move(meaning));
  }

  Json* place(Json&& one) {
    if (open_.empty()) {
      root_ = std::move(one);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(one));
      return &parent.back();
    }
    // ordered_json searches linearly; the key is known to be new, so it is appended directly.
    auto& object = parent.get_ref<Json::object_t&>();
    static_cast<std::vector<std::pair<const std::string, Json>>&>(object).emplace_back(std::move(key_), std::move(one));
    return &object.back().second;
  }

  void open(Json&& container) {
    if (open_.size() >= kDepth) wrong(fmt::format("is nested deeper than {}", kDepth));
    ++at_;
    const bool object = container.is_object();
    open_.push_back(place(std::move(container)));
    if (object) keys_.emplace_back();
    fresh_ = true;
    after_comma_ = false;
  }

  Json string() {
    const size_t begin = at_++;
    std::string out;
    bool unpaired = false;
    while (true) {
      if (at_ >= text_.size()) wrong("ends inside a string");
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) wrong("has a control character inside a string");
      ++at_;
      if (c == '"') break;
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escape = peek();
      ++at_;
      constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      if (escape == 'u') {
        char32_t code = unit();
        if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
          const size_t before = at_;
          at_ += 2;
          const char32_t low = unit();
          if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          } else {
            at_ = before;
          }
        }
        if (code >= 0xD800 && code < 0xE000) {
          unpaired = true;
        } else {
          append_utf8(out, code);
        }
      } else if (const size_t which = kEscapes.find(escape); which != kEscapes.npos && escape != '\0') {
        out += kMeanings[which];
      } else {
        wrong("has an unknown escape inside a string");
      }
    }
    return unpaired ? verbatim(text_.substr(begin, at_ - begin)) : Json(std::move(out));
  }

  char32_t unit() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto end = digits.data() + digits.size();
    if (digits.size() != 4 || std::from_chars(digits.data(), end, code, 16).ptr != end)
      wrong("has a broken \\u escape");
    at_ += 4;
    return code;
  }

  size_t digits() {
    const size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ - begin;
  }

  Json number() {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const size_t whole = digits();
    if (whole == 0) wrong(at_ < text_.size() ? "has something that is no value" : "ends too early");
    if (zero && whole > 1) wrong("has a number with a leading zero");
    bool integer = true;
    if (peek() == '.') {
      integer = false;
      ++at_;
      if (digits() == 0) wrong("has a number without digits after its point");
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (digits() == 0) wrong("has a number without digits in its exponent");
    }
    const std::string_view token = text_.substr(begin, at_ - begin);
    const char *first = token.data(), *last = first + token.size();
    if (integer && token != "-0") {
      uint64_t natural = 0;
      if (const auto got = std::from_chars(first, last, natural); got.ptr == last && got.ec == std::errc())
        return natural;
      int64_t negative = 0;
      if (const auto got = std::from_chars(first, last, negative); got.ptr == last && got.ec == std::errc())
        return negative;
      return verbatim(token);
    }
    double real = 0;
    if (std::from_chars(first, last, real).ec != std::errc()) return verbatim(token);
    if (integer || decimal(token) != decimal(Json(real).dump())) return verbatim(token);
    return real;
  }

  std::string_view text_, what_;
  size_t at_ = 0;
  Json root_;
  std::vector<Json*> open_;  // a parent is not moved while its child is open
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  bool fresh_ = false;  // the innermost container has just been opened
  bool after_comma_ = false;
};

void write_string(std::string& out, const std::string& text) {
  if (!valid_utf8(text)) fail(ErrorKind::Parse, "'{}' is not UTF-8 and cannot be written as JSON", printable(text, 80));
  out += '"';
  for (const char c : text) {
    constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    if (const size_t which = kSpecial.find(c); which != kSpecial.npos) {
      out += '\\';
      out += kLetters[which];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

// Recursion is bounded: parsed values are at most kDepth deep, others are made by code.
void write(std::string& out, const Json& value) {
  if (value.is_object()) {
    char separator = '{';
    for (const auto& [key, child] : value.items()) {
      out += separator;
      write_string(out, key);
      out += ':';
      write(out, child);
      separator = ',';
    }
    out += separator == '{' ? "{}" : "}";
  } else if (value.is_array()) {
    char separator = '[';
    for (const Json& child : value) {
      out += separator;
      write(out, child);
      separator = ',';
    }
    out += separator == '[' ? "[]" : "]";
  } else if (value.is_string()) {
    write_string(out, value.get_ref<const std::string&>());
  } else if (value.is_binary()) {
    const auto& raw = value.get_binary();
    out.append(raw.begin(), raw.end());
  } else {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      fail(ErrorKind::Parse, "a number that is not finite cannot be written as JSON");
    }
    out += value.dump();
  }
}

}  // namespace

Json parse_lossless_json(std::string_view text, std::string_view what) { return Parser(text, what).parse(); }

std::string write_json(const Json& value) {
  std::string out;
  write(out, value);
  return out;
}

bool read_double(const Json& value, double& out) noexcept {
  if (value.is_number()) {
    out = value.get<double>();
    return true;
  }
  if (!value.is_binary()) return false;
  const auto& raw = value.get_binary();
  const auto* first = reinterpret_cast<const char*>(raw.data());
  const auto* last = first + raw.size();
  const auto got = std::from_chars(first, last, out);
  if (got.ptr != last) return false;
  // Out of range at the small end is zero; from_chars says neither which end it was nor a value.
  const std::string_view text(first, raw.size());
  const bool vanishes = got.ec == std::errc::result_out_of_range && decimal(text).exponent < 0;
  if (vanishes) out = text.starts_with('-') ? -0.0 : 0.0;
  return vanishes || got.ec == std::errc();
}

}  // namespace cortiq::cmf
