#include <cmath>
#include <functional>

#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

enum class Order : int8_t { Less = -1, Equal = 0, Greater = 1, None = 2 };

Order order(int sign) { return sign < 0 ? Order::Less : sign > 0 ? Order::Greater : Order::Equal; }

Order reverse(Order value) {
  return value == Order::Less ? Order::Greater : value == Order::Greater ? Order::Less : value;
}

// Exactly, as Python does: 9007199254740993 is not 9007199254740992.0.
Order compare_with_real(const Value& integer, double real) {
  if (std::isnan(real)) return Order::None;
  if (std::isinf(real)) return real > 0 ? Order::Less : Order::Greater;
  const double whole = std::trunc(real);
  const int sign = big(integer).compare(BigInt::truncate(real));
  if (sign != 0) return order(sign);
  return whole < real ? Order::Less : whole > real ? Order::Greater : Order::Equal;
}

Order compare_numbers(const Value& a, const Value& b) {
  if (a.is(Kind::Float) && b.is(Kind::Float)) {
    return a.real() < b.real()    ? Order::Less
           : a.real() > b.real()  ? Order::Greater
           : a.real() == b.real() ? Order::Equal
                                  : Order::None;
  }
  if (b.is(Kind::Float)) return compare_with_real(a, b.real());
  if (a.is(Kind::Float)) return reverse(compare_with_real(b, a.real()));
  if (a.is(Kind::BigInt) || b.is(Kind::BigInt)) return order(big(a).compare(big(b)));
  return a.small() < b.small() ? Order::Less : a.small() > b.small() ? Order::Greater : Order::Equal;
}

bool equal_entries(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value other = lookup(runtime, b, key);
    if (other.missing() || !equal(runtime, value, other)) return false;
  }
  return true;
}

bool equal_items(Runtime& runtime, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!identical(a[i], b[i]) && !equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
  if (a.length != b.length) return false;
  return a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step));
}

[[noreturn]] void not_ordered(const char* sign, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::Undefined)) raise("{}", side->as<UndefinedObject>().message);
  }
  raise("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b));
}

// The order of two values for <, <=, >, >=.
Order ordered(Runtime& runtime, const char* sign, const Value& a, const Value& b) {
  const Nested nested(runtime);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.kind() != b.kind()) not_ordered(sign, a, b);
  switch (a.kind()) {
    case Kind::String: {
      // UTF-8 sorts as its code points do.
      const std::string_view left = text_of(a), right = text_of(b);
      runtime.step(1 + std::min(left.size(), right.size()) / 64);
      return order(left.compare(right));
    }
    case Kind::Bytes:
      return order(a.as<BytesObject>().bytes.compare(b.as<BytesObject>().bytes));
    case Kind::List:
    case Kind::Tuple: {
      const Values &left = a.as<SequenceObject>().items, &right = b.as<SequenceObject>().items;
      for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
        if (!identical(left[i], right[i]) && !equal(runtime, left[i], right[i]))
          return ordered(runtime, sign, left[i], right[i]);
      }
      return left.size() < right.size() ? Order::Less : left.size() > right.size() ? Order::Greater : Order::Equal;
    }
    default:
      not_ordered(sign, a, b);
  }
}

}  // namespace

bool truth(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::Missing:
    case Kind::None:
    case Kind::Undefined:
      return false;
    case Kind::Bool:
    case Kind::Int:
      return value.small() != 0;
    case Kind::Float:
      return value.real() != 0;
    case Kind::BigInt:
    case Kind::Iterator:
    case Kind::Namespace:
      return true;
    case Kind::String:
      return !value.as<StringObject>().text.empty();
    default:
      return length(runtime, value) != 0;
  }
}

int64_t length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::Undefined:
      return 0;
    case Kind::String:
      runtime.step(1 + value.as<StringObject>().text.size() / 256);
      return static_cast<int64_t>(value.as<StringObject>().length());
    case Kind::Bytes:
      return static_cast<int64_t>(value.as<BytesObject>().bytes.size());
    case Kind::List:
    case Kind::Tuple:
      return static_cast<int64_t>(value.as<SequenceObject>().items.size());
    case Kind::Dict:
      return static_cast<int64_t>(value.as<DictObject>().entries.size());
    case Kind::View:
      return static_cast<int64_t>(value.as<ViewObject>().entries().size());
    case Kind::Range:
      return value.as<RangeObject>().length;
    case Kind::Callable:
      return value.as<CallableObject>().length(runtime);
    default:
      return -1;
  }
}

bool identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::String) && text_of(a).size() <= 1) return text_of(a) == text_of(b);  // Python keeps one of each
  if (a.boxed()) return a.object() == b.object();
  return a.is(Kind::None) || (a.is(Kind::Float) ? a.real() == b.real() : a.small() == b.small());
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  const Nested nested(runtime);
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == Order::Equal;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::Missing:
    case Kind::None:
    case Kind::Undefined:
      return true;
    case Kind::String:
      runtime.step(text_of(a).size() == text_of(b).size() ? text_of(a).size() / 64 : 0);
      return text_of(a) == text_of(b);
    case Kind::Bytes:
      return a.as<BytesObject>().bytes == b.as<BytesObject>().bytes;
    case Kind::List:
    case Kind::Tuple:
      return equal_items(runtime, a.as<SequenceObject>().items, b.as<SequenceObject>().items);
    case Kind::Dict:
      return equal_entries(runtime, a.as<DictObject>(), b.as<DictObject>());
    case Kind::Range:
      return equal_ranges(a.as<RangeObject>(), b.as<RangeObject>());
    default:
      return a.object() == b.object();
  }
}

bool less(Runtime& runtime, const Value& a, const Value& b) { return ordered(runtime, "<", a, b) == Order::Less; }

bool compare(Runtime& runtime, Relation relation, const Value& a, const Value& b) {
  switch (relation) {
    case Relation::Equal:
      return equal(runtime, a, b);
    case Relation::NotEqual:
      return !equal(runtime, a, b);
    case Relation::Less:
      return less(runtime, a, b);
    case Relation::Greater:
      return ordered(runtime, ">", a, b) == Order::Greater;
    case Relation::LessEqual: {
      const Order result = ordered(runtime, "<=", a, b);
      return result == Order::Less || result == Order::Equal;
    }
    case Relation::GreaterEqual: {
      const Order result = ordered(runtime, ">=", a, b);
      return result == Order::Greater || result == Order::Equal;
    }
    case Relation::In:
      return contains(runtime, b, a);
    case Relation::NotIn:
      return !contains(runtime, b, a);
  }
  return false;
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::String: {
      if (item.is(Kind::Undefined) || !item.is(Kind::String)) {
        raise("'in <string>' requires string as left operand, not {}", type_name(item));
      }
      runtime.step(1 + text_of(container).size() / 64);
      return text_of(container).find(text_of(item)) != std::string_view::npos;
    }
    case Kind::Dict:
      return !lookup(runtime, container.as<DictObject>(), item).missing();
    case Kind::View:
      if (container.as<ViewObject>().part == ViewObject::Part::Key)
        return contains(runtime, container.as<ViewObject>().dict, item);
      break;
    default:
      if (!iterable(container) && !container.is(Kind::Callable))
        raise("argument of type '{}' is not iterable", type_name(container));
  }
  Cursor cursor(runtime, container);
  for (Value one = cursor.next(); !one.missing(); one = cursor.next()) {
    if (identical(one, item) || equal(runtime, one, item)) return true;
  }
  return false;
}

size_t hash(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::Float: {
      const double real = value.real();
      if (std::isfinite(real) && real == std::trunc(real)) {
        if (std::fabs(real) < 9e18) return std::hash<int64_t>()(static_cast<int64_t>(real));
        return BigInt::truncate(real).hash();
      }
      return std::hash<double>()(real);
    }
    case Kind::BigInt:
      return value.as<BigIntObject>().value.small() ? 0 : value.as<BigIntObject>().value.hash();
    case Kind::String:
      runtime.step(1 + text_of(value).size() / 64);
      return std::hash<std::string_view>()(text_of(value));
    case Kind::Tuple: {
      const Nested nested(runtime);
      size_t code = 1;
      for (const Value& item : value.as<SequenceObject>().items) code = code * 1000003 + hash(runtime, item);
      return code;
    }
    case Kind::View:
      if (value.as<ViewObject>().part == ViewObject::Part::Mapped) return std::hash<const void*>()(value.object());
      raise("unhashable type: '{}'", type_name(value));
    case Kind::List:
    case Kind::Dict:
      raise("unhashable type: '{}'", type_name(value));
    case Kind::Undefined:
      return 99;
    case Kind::Bool:
    case Kind::Int:
      return std::hash<int64_t>()(value.small());
    case Kind::Missing:
    case Kind::None:
      return 98;
    default:
      return std::hash<const void*>()(value.object());
  }
}

}  // namespace cortiq::text::jinja
