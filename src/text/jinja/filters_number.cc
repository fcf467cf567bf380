#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

// Digits of any script as ASCII; white space around removed. nullopt: a character that no number has.
std::optional<std::string> ascii_number(std::string_view text) {
  std::string out;
  text = strip(text, {}, true, true);
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    if (now.code < 0x80) {
      out += static_cast<char>(now.code);
    } else if (const int digit = decimal_value(now.code); digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      return std::nullopt;
    }
    at += now.size;
  }
  return out;
}

// '_' may stand between digits.
bool drop_separators(std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
      continue;
    }
    const auto word = [&](size_t at) {
      return at < digits.size() && std::isalnum(static_cast<unsigned char>(digits[at])) != 0;
    };
    if (i == 0 || !word(i - 1) || !word(i + 1)) return false;
  }
  digits = std::move(out);
  return true;
}

Value whole_part(Runtime& runtime, double real) {
  if (std::isnan(real)) raise("cannot convert float NaN to integer");
  if (std::isinf(real)) raise("cannot convert float infinity to integer");
  return runtime.integer(BigInt::truncate(real));
}

Value to_int(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value otherwise = bound.given(0) ? bound[0] : Value::integer(0);
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (value.is(Kind::Float)) return std::isnan(value.real()) ? otherwise : whole_part(runtime, value.real());
  if (value.is_integer()) return plus(runtime, value);
  if (!value.is(Kind::String)) return otherwise;
  runtime.step(text_of(value).size());
  const Value whole = parse_integer(runtime, text_of(value), bound.integer(1, 10));
  if (!whole.missing()) return whole;
  const Value real = parse_real(text_of(value));
  return real.missing() || std::isnan(real.real()) ? otherwise : whole_part(runtime, real.real());
}

Value to_float(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("float", args, {"default"});
  const Value otherwise = bound.given(0) ? bound[0] : Value::real(0);
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (value.is_number()) return Value::real(to_real(value));
  if (!value.is(Kind::String)) return otherwise;
  runtime.step(text_of(value).size());
  const Value real = parse_real(text_of(value));
  return real.missing() ? otherwise : real;
}

const Value& number(const Value& value, const char* what) {
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (!value.is_number()) raise("bad operand type for {}: '{}'", what, type_name(value));
  return value;
}

Value absolute(Runtime& runtime, const Value& value, Args& args) {
  Bound("abs", args, {});
  if (number(value, "abs()").is(Kind::Float)) return Value::real(std::fabs(value.real()));
  return less(runtime, value, Value::integer(0)) ? negate(runtime, value) : plus(runtime, value);
}

Value round_integer(Runtime& runtime, const Value& value, int64_t digits) {
  if (digits >= 0) return plus(runtime, value);
  if (digits < -4000) return Value::integer(0);
  const BigInt unit = BigInt::power(BigInt(10), static_cast<uint64_t>(-digits));
  BigInt quotient, rest;
  runtime.step(unit.bytes() * unit.bytes() + big(value).bytes() * big(value).bytes());
  BigInt::divide(big(value), unit, quotient, rest);
  const int half = (rest + rest).compare(unit);
  BigInt half_quotient, odd;
  BigInt::divide(quotient, BigInt(2), half_quotient, odd);
  if (half > 0 || (half == 0 && !odd.zero())) quotient = quotient + BigInt(1);
  return runtime.integer(quotient * unit);
}

Value round_filter(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  const int64_t digits = bound.integer(0, 0);
  const std::string_view how = bound.text(1, "common");
  if (how != "common" && how != "ceil" && how != "floor") raise("method must be common, ceil or floor");
  number(value, "round()");
  if (how == "common") {
    if (!value.is(Kind::Float)) return round_integer(runtime, value, digits);
    return Value::real(
        round_half_even(value.real(), static_cast<int>(std::min<int64_t>(std::max<int64_t>(digits, -400), 400))));
  }
  // func(value * 10**precision) / 10**precision, in Python's arithmetic
  const Value scale = arithmetic(runtime, Arithmetic::Power, Value::integer(10), Value::integer(digits));
  const Value scaled = arithmetic(runtime, Arithmetic::Multiply, value, scale);
  const Value whole = scaled.is(Kind::Float)
                          ? whole_part(runtime, how == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real()))
                          : scaled;
  return arithmetic(runtime, Arithmetic::Divide, whole, scale);
}

Value file_size(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("filesizeformat", args, {"binary"});
  const bool binary = bound.truth(runtime, 0, false);
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  const Value real =
      value.is(Kind::String) ? parse_real(text_of(value)) : Value::real(to_real(number(value, "float()")));
  if (real.missing()) raise("could not convert string to float: {}", repr(runtime, value));
  const double bytes = real.real(), base = binary ? 1024 : 1000;
  if (bytes == 1) return runtime.string("1 Byte");
  if (bytes < base) return runtime.string(repr_integer(runtime, whole_part(runtime, bytes)) + " Bytes");
  constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base * base;
  size_t i = 0;
  while (i < 7 && !(bytes < unit)) {
    unit *= base;
    ++i;
  }
  return runtime.string(format_spec(runtime, Value::real(base * bytes / unit), ".1f") + " " +
                        (binary ? kBinary : kDecimal)[i]);
}

constexpr Filter kFilters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float}, {"int", to_int}, {"round", round_filter},
};

}  // namespace

std::span<const Filter> number_filters() { return kFilters; }

Value parse_integer(Runtime& runtime, std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return Value();
  auto ascii = ascii_number(text);
  if (!ascii) return Value();
  std::string_view digits = *ascii;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  int64_t actual = base == 0 ? 10 : base;
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == 0 || base == prefixed)) {
      actual = prefixed;
      digits.remove_prefix(2);
      if (digits.starts_with('_')) digits.remove_prefix(1);
    }
  }
  std::string plain(digits);
  if (plain.empty() || !drop_separators(plain)) return Value();
  for (const char c : plain) {
    const int digit = c >= '0' && c <= '9'                               ? c - '0'
                      : std::isalpha(static_cast<unsigned char>(c)) != 0 ? (c | 0x20) - 'a' + 10
                                                                         : 99;
    if (digit >= actual) return Value();
  }
  const bool leading_zero = base == 0 && actual == 10 && plain[0] == '0' && plain.find_first_not_of('0') != plain.npos;
  if (leading_zero || plain.size() > 4300) return Value();
  runtime.step(plain.size() * plain.size() / 8);
  BigInt value = BigInt::parse(plain, static_cast<unsigned>(actual));
  return runtime.integer(negative ? -value : std::move(value));
}

Value parse_real(std::string_view text) {
  auto ascii = ascii_number(text);
  if (!ascii || !drop_separators(*ascii)) return Value();
  std::string_view digits = *ascii;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const std::string word = lower(digits);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = HUGE_VAL;
  } else if (word == "nan") {
    value = NAN;
  } else {
    if (digits.empty() || (std::isdigit(static_cast<unsigned char>(digits[0])) == 0 && digits[0] != '.'))
      return Value();
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end.ptr != digits.data() + digits.size() || end.ec == std::errc::invalid_argument) return Value();
    if (end.ec == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  }
  return Value::real(negative ? -value : value);
}

}  // namespace cortiq::text::jinja
