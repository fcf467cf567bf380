#include "text/jinja/methods.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

struct BoundMethod : CallableObject {
  BoundMethod(Value self_, const Method& method_) : self(std::move(self_)), method(method_) {}
  void clear() noexcept override { self = Value(); }
  Value call(Runtime& runtime, Args& args) override { return method.run(runtime, self, args); }
  std::string repr() const override {
    return fmt::format("<built-in method {} of {} object>", method.name, type_name(self));
  }
  const char* type() const override { return "builtin_function_or_method"; }
  Value self;
  const Method& method;
};

template <ViewObject::Part part>
Value view(Runtime& runtime, const Value& self, Args& args) {
  Bound("dict method", args, {});
  return runtime.heap.make<ViewObject>(self, part);
}

Value dict_get(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("get", args, {"/key", "/default"}, 1);
  Value found = lookup(runtime, self.as<DictObject>(), bound[0]);
  if (!found.missing()) return found;
  return bound.given(1) ? bound[1] : Value::none();
}

Value dict_copy(Runtime&, const Value& self, Args& args) {
  Bound("copy", args, {});
  return self;  // nothing can change it
}

Value list_copy(Runtime& runtime, const Value& self, Args& args) {
  Bound("copy", args, {});
  return runtime.list(to_values(runtime, self));
}

// The sandbox of jinja2 3.1.2 lets lists be emptied.
Value list_pop(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("pop", args, {"/index"});
  Values& items = self.as<SequenceObject>().items;
  if (items.empty()) raise("pop from empty list");
  const auto size = static_cast<int64_t>(items.size());
  int64_t at = bound.integer(0, -1);
  if (at < 0) at += size;
  if (at < 0 || at >= size) raise("pop index out of range");
  runtime.step(static_cast<uint64_t>(size - at) / 8);
  Value item = std::move(items[static_cast<size_t>(at)]);
  items.erase(items.begin() + at);
  return item;
}

Value list_clear(Runtime&, const Value& self, Args& args) {
  Bound("clear", args, {});
  self.as<SequenceObject>().items.clear();
  return Value::none();
}

Value dict_fromkeys(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("fromkeys", args, {"/iterable", "/value"}, 1);
  Entries entries;
  for (Value& key : to_values(runtime, bound[0]))
    entries.emplace_back(std::move(key), bound.given(1) ? bound[1] : Value::none());
  return runtime.dict(std::move(entries));
}

Value sequence_index(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("index", args, {"/value", "/start", "/stop"}, 1);
  const auto size = length(runtime, self);
  const auto clamp = [&](int64_t at) { return at < 0 ? std::max<int64_t>(at + size, 0) : at; };
  const int64_t start = clamp(bound.integer(1, 0)), stop = clamp(bound.integer(2, size));
  Cursor cursor(runtime, self);
  int64_t at = 0;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next(), ++at) {
    if (at >= start && at < stop && equal(runtime, item, bound[0])) return Value::integer(at);
  }
  raise("{} is not in {}", repr(runtime, bound[0]), type_name(self));
}

Value sequence_count(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("count", args, {"/value"}, 1);
  Cursor cursor(runtime, self);
  int64_t found = 0;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) found += equal(runtime, item, bound[0]);
  return Value::integer(found);
}

Value bytes_decode(Runtime& runtime, const Value& self, Args& args) {
  Bound("decode", args, {"encoding", "errors"});
  const std::string& bytes = self.as<BytesObject>().bytes;
  if (!valid_utf8(bytes)) raise("'utf-8' codec can't decode bytes");
  return runtime.string(bytes);
}

Value bit_length(Runtime&, const Value& self, Args& args) {
  Bound("bit_length", args, {});
  return Value::integer(static_cast<int64_t>(big(self).bit_length()));
}

Value itself(Runtime& runtime, const Value& self, Args& args) {
  Bound("conjugate", args, {});
  return plus(runtime, self);
}

Value is_whole(Runtime&, const Value& self, Args& args) {
  Bound("is_integer", args, {});
  return Value::boolean(std::isfinite(self.real()) && self.real() == std::trunc(self.real()));
}

constexpr Method kDict[] = {
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys},
    {"get", dict_get},
    {"items", view<ViewObject::Part::Item>},
    {"keys", view<ViewObject::Part::Key>},
    {"values", view<ViewObject::Part::Mapped>},
};
constexpr Method kList[] = {
    {"clear", list_clear}, {"copy", list_copy}, {"count", sequence_count}, {"index", sequence_index}, {"pop", list_pop},
};
constexpr Method kTuple[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr Method kBytes[] = {{"decode", bytes_decode}};
constexpr Method kInteger[] = {{"bit_length", bit_length}, {"conjugate", itself}};
constexpr Method kFloat[] = {{"conjugate", itself}, {"is_integer", is_whole}};

std::span<const Method> methods_of(Kind kind) {
  switch (kind) {
    case Kind::String:
      return string_methods();
    case Kind::Dict:
      return kDict;
    case Kind::List:
      return kList;
    case Kind::Tuple:
    case Kind::Range:
      return kTuple;
    case Kind::Bytes:
      return kBytes;
    case Kind::Bool:
    case Kind::Int:
    case Kind::BigInt:
      return kInteger;
    case Kind::Float:
      return kFloat;
    default:
      return {};
  }
}

// Attributes that are no methods.
Value field(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_number()) {
    const bool whole = object.is_integer();
    if (name == "real" || (whole && name == "numerator")) return plus(runtime, object);
    if (name == "imag") return whole ? Value::integer(0) : Value::real(0);
    if (whole && name == "denominator") return Value::integer(1);
  }
  if (object.is(Kind::Range)) {
    const RangeObject& range = object.as<RangeObject>();
    if (name == "start") return Value::integer(range.start);
    if (name == "stop") return Value::integer(range.stop);
    if (name == "step") return Value::integer(range.step);
  }
  if (object.is(Kind::Tuple) && object.as<SequenceObject>().names != nullptr) {
    const SequenceObject& tuple = object.as<SequenceObject>();
    for (size_t i = 0; i < tuple.items.size(); ++i) {
      if (tuple.names[i] == name) return tuple.items[i];
    }
  }
  return Value();
}

}  // namespace

Value builtin_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  const std::span<const Method> methods = methods_of(object.kind());
  const auto found = std::lower_bound(methods.begin(), methods.end(), name,
                                      [](const Method& m, std::string_view n) { return m.name < n; });
  if (found != methods.end() && found->name == name) return runtime.heap.make<BoundMethod>(object, *found);
  return field(runtime, object, name);
}

}  // namespace cortiq::text::jinja
