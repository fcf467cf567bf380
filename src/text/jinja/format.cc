#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/utf8.h"
#include "text/jinja/strings.h"

namespace cortiq::text::jinja {
namespace {

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
  spec.width = format_number(text, at, kWidest, "width");
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    const size_t digits = ++at;
    spec.precision = format_number(text, at, kMostPrecise, "precision");
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

std::string centred(Runtime& runtime, const Spec& spec, std::string text) {
  const auto size = static_cast<int64_t>(count_codes(text));
  if (size >= spec.width) return text;
  const int64_t left = (spec.width - size) / 2;
  return pad(runtime, pad(runtime, text, size + left, spec.fill, -1), spec.width, spec.fill, 1);
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

}  // namespace

int64_t format_number(std::string_view text, size_t& at, int64_t most, const char* what) {
  int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > most) raise("format {} too large (the limit is {})", what, most);
  }
  return value;
}

std::string place_number(Runtime& runtime, const Spec& spec, bool negative, const std::string& prefix,
                         std::string digits) {
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
  return place_number(runtime, spec, whole.negative(), prefix, std::move(digits));
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
  return place_number(runtime, spec, negative, "", std::move(digits));
}

std::string format_text(Runtime& runtime, const Spec& spec, std::string_view text) {
  if (spec.precision >= 0) text = text.substr(0, code_offset(text, static_cast<size_t>(spec.precision)));
  if (spec.align == '^') return centred(runtime, spec, std::string(text));
  return pad(runtime, text, spec.width, spec.fill, spec.align == '>' ? -1 : 1);
}

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

}  // namespace cortiq::text::jinja
