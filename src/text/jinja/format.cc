#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"

namespace cortiq::text::jinja {
namespace {

constexpr int64_t kWidest = 1 << 20;
constexpr int64_t kMostPrecise = 1000;

/// [[fill]align][sign][#][0][width][grouping][.precision][type] of str.format, and what % formats have of it.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char grouping = 0;
  char type = 0;
};

int64_t number(std::string_view text, size_t& at, int64_t most, const char* what) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > most) raise("format {} too large (the limit is {})", what, most);
  }
  return value;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(std::string_view text, const Value& value) {
  Spec spec;
  size_t at = 0;
  const size_t first = text.empty() ? 0 : decode_utf8(text).size;
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') spec.alternate = (++at, true);
  if (peek() == '0') {
    ++at;
    if (spec.align == 0) {
      spec.fill = "0";
      if (value.is_number()) spec.align = '=';
    }
  }
  spec.width = number(text, at, kWidest, "width");
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    const size_t digits = ++at;
    spec.precision = number(text, at, kMostPrecise, "precision");
    if (at == digits) raise("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) raise("Invalid format specifier");
  return spec;
}

[[noreturn]] void unknown_type(const Spec& spec, const Value& value) {
  raise("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
}

std::string print_real(double value, char type, int64_t precision, bool alternate) {
  if (!std::isfinite(value)) {
    const char* name = std::isnan(value) ? "nan" : "inf";
    return type >= 'a' ? name : std::isnan(value) ? "NAN" : "INF";
  }
  const char format[] = {'%', alternate ? '#' : '0', '.', '*', type, 0};
  const int size = std::snprintf(nullptr, 0, format, static_cast<int>(precision), value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, static_cast<int>(precision), value);
  text.pop_back();
  return text;
}

// Separators into the digits before the point or the exponent: every three, every four of other bases.
void group(std::string& digits, const Spec& spec) {
  const bool hex = spec.type == 'x' || spec.type == 'X';
  const size_t every = hex || spec.type == 'b' || spec.type == 'o' ? 4 : 3;
  size_t end = 0;
  const auto counts = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (hex ? std::isxdigit(byte) : std::isdigit(byte)) != 0;
  };
  while (end < digits.size() && counts(digits[end])) ++end;
  for (size_t at = end; at > every; at -= every) digits.insert(at - every, 1, spec.grouping);
}

// Sign, prefix and digits put together and filled to the width.
std::string place(Runtime& runtime, const Spec& spec, bool negative, const std::string& prefix, std::string digits) {
  std::string head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += prefix;
  const char align = spec.align == 0 ? '>' : spec.align;
  if (align == '=') {
    const auto rest = spec.width - static_cast<int64_t>(head.size());
    if (spec.grouping != 0 && spec.fill == "0") {  // the zeros are grouped too
      digits.erase(std::remove(digits.begin(), digits.end(), spec.grouping), digits.end());
      std::string grouped = digits;
      group(grouped, spec);
      while (static_cast<int64_t>(grouped.size()) < rest) {
        digits.insert(0, 1, '0');
        grouped = digits;
        group(grouped, spec);
        runtime.step(grouped.size());
      }
      return head + grouped;
    }
    return head + pad(runtime, digits, rest, spec.fill, -1);
  }
  const std::string whole = head + digits;
  return pad(runtime, whole, spec.width, spec.fill, align == '<' ? 1 : -1);
}

std::string centred(Runtime& runtime, const Spec& spec, std::string text) {
  const auto size = static_cast<int64_t>(count_codes(text));
  if (size >= spec.width) return text;
  const int64_t left = (spec.width - size) / 2;
  return pad(runtime, pad(runtime, text, size + left, spec.fill, -1), spec.width, spec.fill, 1);
}

std::string format_integer(Runtime& runtime, const Spec& spec, const Value& value) {
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  const BigInt whole = big(value);
  runtime.step(whole.bytes() * whole.bytes() / 4);
  unsigned base = 10;
  std::string prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    case 'c': {
      const auto code = whole.small();
      if (!code || *code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000))
        raise("%c arg not in range(0x110000)");
      std::string text;
      append_utf8(text, static_cast<char32_t>(*code));
      return pad(runtime, text, spec.width, spec.fill, spec.align == '>' ? -1 : 1);
    }
    default:
      unknown_type(spec, value);
  }
  if (spec.alternate && base != 10) prefix = std::string("0") + spec.type;
  std::string digits = whole.digits(base);
  if (spec.type == 'X') {
    for (char& c : digits) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  if (spec.grouping != 0) group(digits, spec);
  if (spec.align == '^') {
    std::string head = whole.negative() ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    return centred(runtime, spec, head + prefix + digits);
  }
  return place(runtime, spec, whole.negative(), prefix, std::move(digits));
}

// No type but a precision: as 'g', but with one digit after the point, and with an exponent one digit earlier.
std::string print_plain(double magnitude, int64_t precision, bool alternate) {
  std::string digits = print_real(magnitude, 'g', precision, alternate);
  if (!std::isfinite(magnitude) || digits.find_first_of(".e") != digits.npos) return digits;
  if (static_cast<int64_t>(digits.size()) < precision) return digits + ".0";
  digits = print_real(magnitude, 'e', precision - 1, alternate);
  const size_t exponent = digits.find('e'), last = digits.find_last_not_of('0', exponent - 1);
  if (digits.find('.') < exponent)
    digits.erase(digits[last] == '.' ? last : last + 1, exponent - (digits[last] == '.' ? last : last + 1));
  return digits;
}

std::string format_real(Runtime& runtime, const Spec& spec, const Value& value, double real) {
  std::string digits;
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  const double magnitude = std::fabs(real);
  switch (spec.type) {
    case 0:
      digits = spec.precision < 0 ? repr_float(magnitude)
                                  : print_plain(magnitude, std::max<int64_t>(precision, 1), spec.alternate);
      break;
    case 'n':
      digits = print_real(magnitude, 'g', std::max<int64_t>(precision, 1), spec.alternate);
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
      digits = print_real(magnitude, spec.type, precision, spec.alternate);
      break;
    case 'g':
    case 'G':
      digits = print_real(magnitude, spec.type, std::max<int64_t>(precision, 1), spec.alternate);
      break;
    case '%':
      digits = print_real(magnitude * 100, 'f', precision, spec.alternate) + "%";
      break;
    default:
      unknown_type(spec, value);
  }
  if (spec.grouping != 0 && std::isfinite(real)) group(digits, spec);
  const bool negative = std::signbit(real) && !std::isnan(real);
  if (spec.align == '^') {
    return centred(runtime, spec, (negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + digits);
  }
  return place(runtime, spec, negative, "", std::move(digits));
}

std::string format_text(Runtime& runtime, const Spec& spec, std::string_view text) {
  if (spec.precision >= 0) text = text.substr(0, code_offset(text, static_cast<size_t>(spec.precision)));
  if (spec.align == '^') return centred(runtime, spec, std::string(text));
  return pad(runtime, text, spec.width, spec.fill, spec.align == '>' ? -1 : 1);
}

// text % value, one directive after the other.
class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, std::string_view format, const Value& value, bool as_markup)
      : runtime_(runtime), format_(format), value_(value), markup_(as_markup) {}

  std::string run() {
    while (at_ < format_.size()) {
      const size_t sign = std::min(format_.find('%', at_), format_.size());
      runtime_.append(out_, format_.substr(at_, sign - at_));
      at_ = sign;
      if (at_ < format_.size()) directive();
    }
    const bool mapping =
        value_.is(Kind::Dict) || value_.is(Kind::List) || value_.is(Kind::Undefined) || value_.is(Kind::Range);
    const size_t count = value_.is(Kind::Tuple) ? value_.as<SequenceObject>().items.size() : 1;
    if (!mapping && used_ < count) raise("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char take() {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_[at_++];
  }

  Value argument() {
    if (!key_.missing()) return key_;
    const size_t index = used_++;
    if (value_.is(Kind::Tuple)) {
      const Values& items = value_.as<SequenceObject>().items;
      if (index < items.size()) return items[index];
    } else if (index == 0) {
      return value_;
    }
    raise("not enough arguments for format string");
  }

  int64_t star_or_number(int64_t most, const char* what) {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const Value value = argument();
      if (!value.is(Kind::Int) && !value.is(Kind::Bool)) raise("* wants int");
      if (value.small() > most || value.small() < -most) raise("format {} too large (the limit is {})", what, most);
      return value.small();
    }
    return number(format_, at_, most, what);
  }

  void directive() {
    ++at_;
    key_ = Value();
    if (at_ < format_.size() && format_[at_] == '(') mapping_key();
    Spec spec;
    bool zero = false;
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        zero = true;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = star_or_number(kWidest, "width");
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(star_or_number(kMostPrecise, "precision"), 0);
    }
    while (at_ < format_.size() && (format_[at_] == 'h' || format_[at_] == 'l' || format_[at_] == 'L')) ++at_;
    spec.type = take();
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    convert(spec, zero);
  }

  void mapping_key() {
    size_t depth = 1;
    const size_t begin = ++at_;
    for (; depth > 0; ++at_) {
      if (at_ >= format_.size()) raise("incomplete format key");
      depth += format_[at_] == '(' ? 1 : format_[at_] == ')' ? size_t(-1) : 0;
    }
    if (!value_.is(Kind::Dict)) raise("format requires a mapping");
    const std::string name(format_.substr(begin, at_ - 1 - begin));
    key_ = lookup(runtime_, value_.as<DictObject>(), runtime_.string(name));
    if (key_.missing()) raise("'{}'", name);
    used_ = 1;
  }

  void convert(Spec spec, bool zero) {
    const Value value = argument();
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = spec.type == 's'   ? str(runtime_, value)
                           : spec.type == 'r' ? repr(runtime_, value)
                                              : ascii(runtime_, value);
        if (markup_ && !markup(value)) text = escape_html(text);
        if (spec.align == 0) spec.align = '>';
        runtime_.append(out_, format_text(runtime_, spec, text));
        return;
      }
      case 'c': {
        if (value.is(Kind::String)) {
          if (length(runtime_, value) != 1) raise("%c requires int or char");
          if (spec.align == 0) spec.align = '>';
          spec.precision = -1;
          runtime_.append(out_, format_text(runtime_, spec, text_of(value)));
          return;
        }
        if (!value.is_integer()) raise("%c requires int or char");
        if (spec.align == 0) spec.align = '>';
        spec.precision = -1;
        runtime_.append(out_, format_integer(runtime_, spec, value));
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        integer(spec, zero, value);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        fill_with_zeros(spec, zero);
        if (!value.is_number()) undefined_or(value, "must be real number, not {}");
        runtime_.append(out_, format_real(runtime_, spec, value, to_real(value)));
        return;
      default:
        raise("unsupported format character '{}' ({:#x}) at index {}", spec.type, static_cast<unsigned char>(spec.type),
              at_ - 1);
    }
  }

  [[noreturn]] void undefined_or(const Value& value, fmt::format_string<const char*> message) {
    if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
    raise(message, type_name(value));
  }

  void fill_with_zeros(Spec& spec, bool zero) {
    if (!zero || spec.align == '<') return;
    spec.fill = "0";
    spec.align = '=';
  }

  void integer(Spec spec, bool zero, const Value& value) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (value.is(Kind::Float) && !decimal) raise("%{} format: an integer is required, not float", spec.type);
    if (!value.is_number()) undefined_or(value, "%d format: a real number is required, not {}");
    if (value.is(Kind::Float) && !std::isfinite(value.real()))
      raise("cannot convert float {} to integer", repr_float(value.real()));
    if (decimal) spec.type = 'd';
    fill_with_zeros(spec, zero);
    const Value whole = value.is(Kind::Float) ? runtime_.integer(BigInt::truncate(value.real())) : value;
    const int64_t digits = spec.precision;
    spec.precision = -1;
    if (digits < 0) {
      runtime_.append(out_, format_integer(runtime_, spec, whole));
      return;
    }
    // The precision is the least number of digits.
    Spec bare;
    bare.type = spec.type;
    BigInt magnitude = big(whole);
    const bool negative = magnitude.negative();
    if (negative) magnitude = -magnitude;
    const std::string text =
        pad(runtime_, format_integer(runtime_, bare, runtime_.integer(std::move(magnitude))), digits, "0", -1);
    const std::string prefix = spec.alternate && !decimal ? std::string("0") + spec.type : "";
    runtime_.append(out_, place(runtime_, spec, negative, prefix, text));
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& value_;
  bool markup_;
  size_t at_ = 0;
  size_t used_ = 0;
  Value key_;
  std::string out_;
};

// text.format(…): replacement fields with automatic numbering, attributes, indices, conversions, nested specs.
class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Args& args, bool as_markup)
      : runtime_(runtime), args_(args), markup_(as_markup) {}

  std::string run(std::string_view text, int depth) {
    if (depth < 0) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      runtime_.append(out, text.substr(at, brace - at));
      at = brace;
      if (at == text.size()) break;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        out += text[at];
        at += 2;
        continue;
      }
      if (text[at] == '}') raise("Single '}}' encountered in format string");
      const size_t begin = ++at;
      size_t nesting = 1;
      for (; at < text.size() && nesting > 0; ++at) nesting += text[at] == '{' ? 1 : text[at] == '}' ? size_t(-1) : 0;
      if (nesting > 0 && begin == text.size()) raise("Single '{{' encountered in format string");
      if (nesting > 0) raise("expected '}}' before end of string");
      runtime_.append(out, field(text.substr(begin, at - 1 - begin), depth));
    }
    return out;
  }

 private:
  std::string field(std::string_view text, int depth) {
    size_t end = 0;
    for (bool bracket = false; end < text.size(); ++end) {
      if (text[end] == '[') bracket = true;
      if (text[end] == ']') bracket = false;
      if (!bracket && (text[end] == '!' || text[end] == ':')) break;
    }
    const std::string_view name = text.substr(0, end);
    char conversion = 0;
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size()) raise("end of string while looking for conversion specifier");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') raise("expected ':' after conversion specifier");
    }
    Value value = find(name);
    const std::string spec = end < text.size() ? run(text.substr(end + 1), depth - 1) : std::string();
    if (conversion == 'r' || conversion == 'a') {
      value = runtime_.string(conversion == 'r' ? repr(runtime_, value) : ascii(runtime_, value));
    } else if (conversion == 's') {
      value = to_string(runtime_, value);
    } else if (conversion != 0) {
      raise("Unknown conversion specifier {}", conversion);
    }
    std::string shown = format_spec(runtime_, value, spec);
    return markup_ && !markup(value) ? escape_html(shown) : shown;
  }

  Value find(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    for (size_t at = end; at < name.size();) {
      if (name[at] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", at + 1), name.size());
        if (stop == at + 1) raise("Empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(at + 1, stop - at - 1));
        at = stop;
      } else if (name[at] == '[') {
        const size_t stop = name.find(']', at);
        if (stop == name.npos) raise("Missing ']' in format string");
        value = get_item(runtime_, value, index(name.substr(at + 1, stop - at - 1)));
        at = stop + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value index(std::string_view text) {
    if (text.empty()) raise("Empty attribute in format string");
    if (text.find_first_not_of("0123456789") != text.npos || text.size() > 18)
      return runtime_.string(std::string(text));
    return Value::integer(std::stoll(std::string(text)));
  }

  Value first(std::string_view name) {
    if (!name.empty() && name.find_first_not_of("0123456789") != name.npos) {
      for (const auto& [key, value] : args_.keywords) {
        if (key == name) return value;
      }
      raise("'{}'", name);
    }
    if (name.empty() ? numbered_ > 0 : automatic_ > 0) {
      raise("cannot switch from manual field specification to automatic field numbering");
    }
    const size_t position =
        name.empty() ? automatic_++ : (numbered_ = 1, name.size() > 9 ? SIZE_MAX : std::stoul(std::string(name)));
    if (position >= args_.positional.size())
      raise("Replacement index {} out of range for positional args tuple", position);
    return args_.positional[position];
  }

  Runtime& runtime_;
  const Args& args_;
  bool markup_;
  size_t automatic_ = 0, numbered_ = 0;
};

}  // namespace

std::string format_spec(Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) return str(runtime, value);
  if (!value.is_number() && !value.is(Kind::String)) {
    raise("unsupported format string passed to {}.__format__", type_name(value));
  }
  const Spec spec = parse_spec(text, value);
  if (value.is(Kind::String)) {
    if (spec.type != 0 && spec.type != 's') unknown_type(spec, value);
    if (spec.align == '=') raise("'=' alignment not allowed in string format specifier");
    if (spec.sign != '-' || spec.grouping != 0 || spec.alternate)
      raise("Sign, grouping or '#' not allowed in string format specifier");
    return format_text(runtime, spec, text_of(value));
  }
  const bool real = value.is(Kind::Float) ||
                    (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  return real ? format_real(runtime, spec, value, to_real(value)) : format_integer(runtime, spec, value);
}

std::string format_percent(Runtime& runtime, std::string_view format, const Value& value, bool as_markup) {
  return PercentFormat(runtime, format, value, as_markup).run();
}

std::string format_braces(Runtime& runtime, std::string_view format, const Args& args, bool as_markup) {
  return BraceFormat(runtime, args, as_markup).run(format, 2);
}

}  // namespace cortiq::text::jinja
