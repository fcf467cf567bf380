#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(Arithmetic operation, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", kSigns[static_cast<size_t>(operation)], type_name(a),
        type_name(b));
}

void charge_big(Runtime& runtime, const BigInt& a, const BigInt& b) { runtime.step(a.bytes() * b.bytes() / 16); }

Value integers(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b);

Value reals(Arithmetic operation, double a, double b) {
  switch (operation) {
    case Arithmetic::Add:
      return Value::real(a + b);
    case Arithmetic::Subtract:
      return Value::real(a - b);
    case Arithmetic::Multiply:
      return Value::real(a * b);
    case Arithmetic::Divide:
      if (b == 0) raise("float division by zero");
      return Value::real(a / b);
    case Arithmetic::FloorDivide:
      if (b == 0) raise("float floor division by zero");
      return Value::real(floor_divide(a, b));
    case Arithmetic::Modulo:
      if (b == 0) raise("float modulo");
      return Value::real(modulo(a, b));
    case Arithmetic::Power:
      break;
  }
  if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::trunc(b))
    raise("complex numbers are not supported in templates");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) raise("(34, 'Numerical result out of range')");
  return Value::real(result);
}

Value powers(Runtime& runtime, const Value& a, const Value& b) {
  const BigInt exponent = big(b);
  if (exponent.negative()) return reals(Arithmetic::Power, to_real(a), to_real(b));
  const BigInt base = big(a);
  const auto count = exponent.small();
  if (!count) {
    if (base.bit_length() > 1) raise("integer too large");
    return integers(runtime, Arithmetic::Power, a, integers(runtime, Arithmetic::Modulo, b, Value::integer(2)));
  }
  runtime.step(base.bit_length() > 1 ? 2000 : 64);
  return runtime.integer(BigInt::power(base, static_cast<uint64_t>(*count)));
}

// a / b of whole numbers, as Python has it: the exact quotient is rounded once, however large the numbers are.
double true_quotient(Runtime& runtime, const Value& a, const Value& b) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto exact = [](const Value& value) {
    return !value.is(Kind::BigInt) && value.small() <= kExact && value.small() >= -kExact;
  };
  if (exact(a) && exact(b)) return static_cast<double>(a.small()) / static_cast<double>(b.small());
  BigInt x = big(a), y = big(b);
  const bool negative = x.negative() != y.negative();
  if (x.zero()) return negative ? -0.0 : 0.0;
  if (x.negative()) x = -x;
  if (y.negative()) y = -y;
  // A quotient of 66 or 67 bits, and one bit behind them that says whether anything follows.
  const int64_t shift = 66 + static_cast<int64_t>(y.bit_length()) - static_cast<int64_t>(x.bit_length());
  BigInt& scaled = shift > 0 ? x : y;
  scaled = scaled * BigInt::power(BigInt(2), static_cast<uint64_t>(std::abs(shift)));
  runtime.step(x.bytes() * x.bytes());
  BigInt quotient, rest;
  BigInt::divide(x, y, quotient, rest);
  quotient = quotient + quotient + BigInt(rest.zero() ? 0 : 1);
  const double result = std::ldexp(quotient.to_double(), static_cast<int>(-shift - 1));
  if (std::isinf(result)) raise("integer division result too large for a float");
  return negative ? -result : result;
}

Value integers(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b) {
  if (operation == Arithmetic::Power) return powers(runtime, a, b);
  const bool divides = operation >= Arithmetic::Divide;
  const bool zero = !b.is(Kind::BigInt) && b.small() == 0;
  if (divides && zero)
    raise("{}", operation == Arithmetic::Divide ? "division by zero" : "integer division or modulo by zero");
  if (operation == Arithmetic::Divide) return Value::real(true_quotient(runtime, a, b));
  if (!a.is(Kind::BigInt) && !b.is(Kind::BigInt)) {
    const int64_t x = a.small(), y = b.small();
    int64_t result = 0;
    switch (operation) {
      case Arithmetic::Add:
        if (!__builtin_add_overflow(x, y, &result)) return Value::integer(result);
        break;
      case Arithmetic::Subtract:
        if (!__builtin_sub_overflow(x, y, &result)) return Value::integer(result);
        break;
      case Arithmetic::Multiply:
        if (!__builtin_mul_overflow(x, y, &result)) return Value::integer(result);
        break;
      default:
        if (y == -1) break;  // INT64_MIN / -1
        result = x / y;
        if (x % y != 0 && (x < 0) != (y < 0)) --result;
        return Value::integer(operation == Arithmetic::FloorDivide ? result : x - result * y);
    }
  }
  const BigInt x = big(a), y = big(b);
  charge_big(runtime, x, y);
  switch (operation) {
    case Arithmetic::Add:
      return runtime.integer(x + y);
    case Arithmetic::Subtract:
      return runtime.integer(x - y);
    case Arithmetic::Multiply:
      return runtime.integer(x * y);
    default: {
      runtime.step(x.bytes() * x.bytes());
      BigInt quotient, remainder;
      BigInt::divide(x, y, quotient, remainder);
      return runtime.integer(operation == Arithmetic::FloorDivide ? std::move(quotient) : std::move(remainder));
    }
  }
}

Value concatenate(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is(Kind::String) && b.is(Kind::String)) {
    const bool safe = markup(a) || markup(b);
    std::string left = safe && !markup(a) ? escape_html(text_of(a)) : std::string(text_of(a));
    const std::string right = safe && !markup(b) ? escape_html(text_of(b)) : std::string();
    runtime.append(left, safe && !markup(b) ? std::string_view(right) : text_of(b));
    return runtime.string(std::move(left), safe);
  }
  if (a.kind() == b.kind() && (a.is(Kind::List) || a.is(Kind::Tuple))) {
    Values items = to_values(runtime, a);
    const Values& more = b.as<SequenceObject>().items;
    runtime.step(more.size() / 8);
    runtime.heap.demand((items.size() + more.size()) * sizeof(Value));
    items.insert(items.end(), more.begin(), more.end());
    return a.is(Kind::List) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
  }
  if (a.is(Kind::String)) raise("can only concatenate str (not \"{}\") to str", type_name(b));
  if (a.is(Kind::List) || a.is(Kind::Tuple))
    raise("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b));
  unsupported(Arithmetic::Add, a, b);
}

Value repeat(Runtime& runtime, const Value& sequence, const Value& count) {
  if (count.is(Kind::BigInt) && !count.as<BigIntObject>().value.negative())
    raise("cannot fit 'int' into an index-sized integer");
  const int64_t times = count.is(Kind::BigInt) ? 0 : std::max<int64_t>(count.small(), 0);
  const size_t unit =
      sequence.is(Kind::String) ? text_of(sequence).size() : sequence.as<SequenceObject>().items.size() * sizeof(Value);
  if (unit != 0 && static_cast<uint64_t>(times) > runtime.limits.live_bytes / unit)
    runtime.heap.demand(runtime.limits.live_bytes + 1);
  runtime.heap.demand(unit * static_cast<size_t>(times));
  runtime.step(unit * static_cast<size_t>(times) / 64);
  if (unit == 0) return sequence;
  if (sequence.is(Kind::String)) {
    std::string text;
    text.reserve(unit * static_cast<size_t>(times));
    for (int64_t i = 0; i < times; ++i) text += text_of(sequence);
    return runtime.string(std::move(text), markup(sequence));
  }
  const Values& unit_items = sequence.as<SequenceObject>().items;
  Values items;
  items.reserve(unit_items.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), unit_items.begin(), unit_items.end());
  return sequence.is(Kind::List) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

bool sequence(const Value& value) { return value.is(Kind::String) || value.is(Kind::List) || value.is(Kind::Tuple); }

}  // namespace

double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  if ((b < 0) != (rest < 0)) rest += b;
  return rest;
}

BigInt big(const Value& integer) {
  return integer.is(Kind::BigInt) ? integer.as<BigIntObject>().value : BigInt(integer.small());
}

double to_real(const Value& number) {
  if (number.is(Kind::Float)) return number.real();
  return number.is(Kind::BigInt) ? number.as<BigIntObject>().value.to_double() : static_cast<double>(number.small());
}

double round_half_even(double value, int digits) {
  if (!std::isfinite(value) || digits > 320) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::isinf(scale) ? std::copysign(0.0, value) : std::nearbyint(value / scale) * scale;
  }
  // The decimal expansion of a double is finite: printing it with so many digits rounds it exactly.
  char text[700];
  const auto printed = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
  double result = 0;
  std::from_chars(text, printed.ptr, result);
  return result;
}

Value negate(Runtime& runtime, const Value& value) {
  if (value.is(Kind::Float)) return Value::real(-value.real());
  if (value.is_integer()) return runtime.integer(-big(value));
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  raise("bad operand type for unary -: '{}'", type_name(value));
}

Value plus(Runtime& runtime, const Value& value) {
  if (value.is(Kind::Float)) return value;
  if (value.is_integer()) return runtime.integer(big(value));
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  raise("bad operand type for unary +: '{}'", type_name(value));
}

Value arithmetic(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b) {
  if (operation == Arithmetic::Modulo && a.is(Kind::String)) {
    return runtime.string(format_percent(runtime, text_of(a), b, markup(a)), markup(a));
  }
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::Undefined)) raise("{}", side->as<UndefinedObject>().message);
  }
  if (a.is_number() && b.is_number()) {
    if (a.is(Kind::Float) || b.is(Kind::Float)) return reals(operation, to_real(a), to_real(b));
    return integers(runtime, operation, a, b);
  }
  if (operation == Arithmetic::Add) return concatenate(runtime, a, b);
  if (operation == Arithmetic::Multiply) {
    if (sequence(a) && b.is_integer()) return repeat(runtime, a, b);
    if (sequence(b) && a.is_integer()) return repeat(runtime, b, a);
    if (sequence(a) || sequence(b))
      raise("can't multiply sequence by non-int of type '{}'", type_name(sequence(a) ? b : a));
  }
  unsupported(operation, a, b);
}

}  // namespace cortiq::text::jinja
