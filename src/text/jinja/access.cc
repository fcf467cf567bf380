#include "base/utf8.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

// Byte offset of the code point `index`.
size_t offset_of(Runtime& runtime, const StringObject& string, size_t index) {
  if (string.ascii()) return index;
  runtime.step(string.text.size() / 64);
  size_t at = 0;
  for (; index > 0; --index) {
    do ++at;
    while (at < string.text.size() && (static_cast<unsigned char>(string.text[at]) & 0xC0) == 0x80);
  }
  return at;
}

Value element(Runtime& runtime, const Value& object, int64_t index) {
  const int64_t size = length(runtime, object);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return Value();
  switch (object.kind()) {
    case Kind::List:
    case Kind::Tuple:
      return object.as<SequenceObject>().items[static_cast<size_t>(index)];
    case Kind::Range: {
      const RangeObject& range = object.as<RangeObject>();
      return Value::integer(range.start + index * range.step);
    }
    case Kind::Bytes:
      return Value::integer(static_cast<unsigned char>(object.as<BytesObject>().bytes[static_cast<size_t>(index)]));
    default: {
      const StringObject& string = object.as<StringObject>();
      const size_t at = offset_of(runtime, string, static_cast<size_t>(index));
      return runtime.string(string.text.substr(at, decode_utf8(std::string_view(string.text).substr(at)).size),
                            string.markup);
    }
  }
}

struct Bounds {
  int64_t start, stop, step, count;
};

int64_t slice_index(const Value& value) {
  if (value.is(Kind::BigInt)) return value.as<BigIntObject>().value.negative() ? INT64_MIN / 4 : INT64_MAX / 4;
  if (value.is(Kind::Bool) || value.is(Kind::Int))
    return std::min(std::max(value.small(), INT64_MIN / 4), INT64_MAX / 4);
  raise("slice indices must be integers or None or have an __index__ method");
}

Bounds resolve(const Value& start, const Value& stop, const Value& step, int64_t size) {
  Bounds bounds{};
  bounds.step = step.none_or_missing() ? 1 : slice_index(step);
  if (bounds.step == 0) raise("slice step cannot be zero");
  const bool back = bounds.step < 0;
  const int64_t low = back ? -1 : 0, high = back ? size - 1 : size;
  const auto clamp = [&](const Value& value, int64_t otherwise) {
    if (value.none_or_missing()) return otherwise;
    int64_t index = slice_index(value);
    if (index < 0) index += size;
    return std::min(std::max(index, low), high);
  };
  bounds.start = clamp(start, back ? high : low);
  bounds.stop = clamp(stop, back ? low : high);
  const int64_t span = back ? bounds.start - bounds.stop : bounds.stop - bounds.start;
  const int64_t stride = back ? -bounds.step : bounds.step;
  bounds.count = span <= 0 ? 0 : (span - 1) / stride + 1;
  return bounds;
}

Value slice_string(Runtime& runtime, const Value& object, const Bounds& bounds) {
  const StringObject& string = object.as<StringObject>();
  if (bounds.count == 0) return runtime.string("", string.markup);
  if (bounds.step == 1) {
    const size_t begin = offset_of(runtime, string, static_cast<size_t>(bounds.start));
    const size_t end = offset_of(runtime, string, static_cast<size_t>(bounds.start + bounds.count));
    return runtime.string(string.text.substr(begin, end - begin), string.markup);
  }
  runtime.heap.demand(string.text.size() * 5);
  runtime.step(string.text.size() / 8);
  std::vector<uint32_t> starts;
  for (size_t at = 0; at < string.text.size(); ++at) {
    if ((static_cast<unsigned char>(string.text[at]) & 0xC0) != 0x80) starts.push_back(static_cast<uint32_t>(at));
  }
  starts.push_back(static_cast<uint32_t>(string.text.size()));
  std::string text;
  for (int64_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step) {
    const auto index = static_cast<size_t>(at);
    text.append(string.text, starts[index], starts[index + 1] - starts[index]);
  }
  return runtime.string(std::move(text), string.markup);
}

std::string described(Runtime& runtime, const Value& object, const Value& key) {
  const std::string type = object.is(Kind::None) ? "None" : std::string(type_name(object)) + " object";
  if (key.is(Kind::String)) return fmt::format("'{}' has no attribute '{}'", type, text_of(key));
  return fmt::format("{} has no element {}", type, repr(runtime, key));
}

bool mutates(const Value& object, std::string_view name) {
  const auto among = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view known : names) {
      if (known == name) return true;
    }
    return false;
  };
  if (object.is(Kind::List))
    return among({"append", "reverse", "insert", "sort", "extend", "remove"});  // not pop and clear
  if (object.is(Kind::Dict)) return among({"clear", "pop", "popitem", "setdefault", "update"});
  return false;
}

// What every Python object has; reaching for it is what the sandbox is there to stop.
bool internal(std::string_view name) {
  for (const std::string_view known : {"__class__",
                                       "__init__",
                                       "__doc__",
                                       "__dir__",
                                       "__eq__",
                                       "__ne__",
                                       "__lt__",
                                       "__le__",
                                       "__gt__",
                                       "__ge__",
                                       "__hash__",
                                       "__new__",
                                       "__repr__",
                                       "__str__",
                                       "__reduce__",
                                       "__reduce_ex__",
                                       "__getattribute__",
                                       "__setattr__",
                                       "__delattr__",
                                       "__format__",
                                       "__sizeof__",
                                       "__subclasshook__",
                                       "__init_subclass__",
                                       "__len__",
                                       "__contains__",
                                       "__getitem__",
                                       "__iter__",
                                       "__globals__",
                                       "__code__",
                                       "__closure__",
                                       "__call__",
                                       "__self__",
                                       "__func__",
                                       "__dict__",
                                       "__module__",
                                       "__name__",
                                       "__qualname__",
                                       "__add__",
                                       "__mul__",
                                       "__mod__",
                                       "__bool__",
                                       "__int__",
                                       "__float__"}) {
    if (known == name) return true;
  }
  return false;
}

// The attribute as Python's getattr finds it: a missing value if there is none.
Value attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is(Kind::Undefined)) {
    if (name.starts_with("__") && name.ends_with("__")) return Value();
    raise("{}", object.as<UndefinedObject>().message);
  }
  if (mutates(object, name) || internal(name)) {
    return runtime.undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  }
  if (name.starts_with('_')) return Value();
  if (object.is(Kind::Namespace)) {
    for (const auto& [key, value] : object.as<NamespaceObject>().attributes) {
      if (text_of(key) == name) return value;
    }
    return Value();
  }
  if (object.is(Kind::Callable)) return object.as<CallableObject>().attribute(runtime, name);
  return builtin_attribute(runtime, object, name);
}

}  // namespace

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::Missing:
    case Kind::None:
      return "NoneType";
    case Kind::Bool:
      return "bool";
    case Kind::Int:
    case Kind::BigInt:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::Undefined:
      return "Undefined";
    case Kind::String:
      return markup(value) ? "Markup" : "str";
    case Kind::Bytes:
      return "bytes";
    case Kind::List:
      return "list";
    case Kind::Tuple:
      return "tuple";
    case Kind::Dict:
      return "dict";
    case Kind::View: {
      const auto part = value.as<ViewObject>().part;
      return part == ViewObject::Part::Key      ? "dict_keys"
             : part == ViewObject::Part::Mapped ? "dict_values"
                                                : "dict_items";
    }
    case Kind::Range:
      return "range";
    case Kind::Iterator:
      return value.as<IteratorObject>().type;
    case Kind::Namespace:
      return "Namespace";
    case Kind::Callable:
      return value.as<CallableObject>().type();
    case Kind::Activation:
      break;
  }
  return "object";
}

std::string_view text_of(const Value& string) { return string.as<StringObject>().text; }

bool markup(const Value& value) { return value.is(Kind::String) && value.as<StringObject>().markup; }

Value lookup(Runtime& runtime, const DictObject& dict, const Value& key) {
  const size_t code = hash(runtime, key);
  if (dict.index.empty()) {
    for (const auto& [known, value] : dict.entries) {
      if (equal(runtime, known, key)) return value;
    }
    return Value();
  }
  const auto [first, last] = dict.index.equal_range(code);
  for (auto entry = first; entry != last; ++entry) {
    if (equal(runtime, dict.entries[entry->second].first, key)) return dict.entries[entry->second].second;
  }
  return Value();
}

Value subscript(Runtime& runtime, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::Undefined:
      raise("{}", object.as<UndefinedObject>().message);
    case Kind::Dict:
      if (key.is(Kind::List) || key.is(Kind::Dict)) return Value();  // unhashable: a TypeError
      return lookup(runtime, object.as<DictObject>(), key);
    case Kind::String:
    case Kind::Bytes:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Range:
      return key.is(Kind::Int) || key.is(Kind::Bool) ? element(runtime, object, key.small()) : Value();
    default:
      return Value();
  }
}

Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  switch (object.kind()) {
    case Kind::Undefined:
      raise("{}", object.as<UndefinedObject>().message);
    case Kind::Dict:
      raise("unhashable type: 'slice'");
    case Kind::String:
    case Kind::Bytes:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Range:
      break;
    default:
      raise("'{}' object is not subscriptable", type_name(object));
  }
  const Bounds bounds = resolve(start, stop, step, length(runtime, object));
  if (object.is(Kind::String)) return slice_string(runtime, object, bounds);
  if (object.is(Kind::Range)) {
    const RangeObject& range = object.as<RangeObject>();
    return runtime.heap.make<RangeObject>(range.start + bounds.start * range.step,
                                          range.start + bounds.stop * range.step, range.step * bounds.step,
                                          bounds.count);
  }
  runtime.step(static_cast<uint64_t>(bounds.count) / 8);
  runtime.heap.demand(static_cast<size_t>(bounds.count) * sizeof(Value));
  if (object.is(Kind::Bytes)) {
    std::string bytes;
    for (int64_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step) {
      bytes += object.as<BytesObject>().bytes[static_cast<size_t>(at)];
    }
    return runtime.heap.make<BytesObject>(std::move(bytes));
  }
  Values items;
  items.reserve(static_cast<size_t>(bounds.count));
  for (int64_t i = 0, at = bounds.start; i < bounds.count; ++i, at += bounds.step) {
    items.push_back(object.as<SequenceObject>().items[static_cast<size_t>(at)]);
  }
  return object.is(Kind::List) ? runtime.list(std::move(items)) : runtime.tuple(std::move(items));
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (Value found = attribute(runtime, object, name); !found.missing()) return found;
  const Value key = runtime.string(std::string(name));
  if (Value found = subscript(runtime, object, key); !found.missing()) return found;
  return runtime.undefined(described(runtime, object, key));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (Value found = subscript(runtime, object, key); !found.missing()) return found;
  if (key.is(Kind::String)) {
    if (Value found = attribute(runtime, object, text_of(key)); !found.missing()) return found;
  }
  return runtime.undefined(described(runtime, object, key));
}

Value call(Runtime& runtime, const Value& callable, Args& args) {
  if (callable.is(Kind::Undefined)) raise("{}", callable.as<UndefinedObject>().message);
  if (!callable.is(Kind::Callable)) raise("'{}' object is not callable", type_name(callable));
  const Nested nested(runtime);
  return callable.as<CallableObject>().call(runtime, args);
}

}  // namespace cortiq::text::jinja
