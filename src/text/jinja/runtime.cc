#include "text/jinja/runtime.h"

#include <ctime>

#include "base/utf8.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

Value Runtime::dict(Entries entries) {
  step(entries.size());
  Entries unique;
  unique.reserve(entries.size());
  std::unordered_multimap<size_t, size_t> index;
  for (auto& [key, value] : entries) {
    const size_t code = hash(*this, key);
    const auto [first, last] = index.equal_range(code);
    auto same = first;
    while (same != last && !equal(*this, unique[same->second].first, key)) ++same;
    if (same != last) {
      unique[same->second].second = std::move(value);
    } else {
      index.emplace(code, unique.size());
      unique.emplace_back(std::move(key), std::move(value));
    }
  }
  const bool indexed = unique.size() > 8;
  Value result = heap.make<DictObject>(std::move(unique));
  if (indexed) result.as<DictObject>().index = std::move(index);
  return result;
}

const std::tm& Runtime::now() {
  if (!now_) {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
    localtime_r(&seconds, &local);
    now_ = local;
  }
  return *now_;
}

bool iterable(const Value& value) noexcept {
  switch (value.kind()) {
    case Kind::Undefined:
    case Kind::String:
    case Kind::Bytes:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
    case Kind::View:
    case Kind::Range:
    case Kind::Iterator:
      return true;
    default:
      return false;
  }
}

Cursor::Cursor(Runtime& runtime, Value source) : runtime_(&runtime), source_(std::move(source)) {
  if (source_.is(Kind::Callable)) {
    if (Value inner = source_.as<CallableObject>().iterate(runtime); !inner.missing()) source_ = std::move(inner);
  }
  if (!iterable(source_)) raise("'{}' object is not iterable", type_name(source_));
}

Value Cursor::next() {
  runtime_->step();
  switch (source_.kind()) {
    case Kind::String: {
      const std::string& text = source_.as<StringObject>().text;
      if (at_ >= text.size()) return Value();
      const size_t size = decode_utf8(std::string_view(text).substr(at_)).size;
      at_ += size;
      return runtime_->string(text.substr(at_ - size, size), false);
    }
    case Kind::Bytes: {
      const std::string& bytes = source_.as<BytesObject>().bytes;
      return at_ < bytes.size() ? Value::integer(static_cast<unsigned char>(bytes[at_++])) : Value();
    }
    case Kind::List:
    case Kind::Tuple: {
      const Values& items = source_.as<SequenceObject>().items;
      return at_ < items.size() ? items[at_++] : Value();
    }
    case Kind::Dict: {
      const Entries& entries = source_.as<DictObject>().entries;
      return at_ < entries.size() ? entries[at_++].first : Value();
    }
    case Kind::View: {
      const ViewObject& view = source_.as<ViewObject>();
      if (at_ >= view.entries().size()) return Value();
      const auto& [key, value] = view.entries()[at_++];
      if (view.part == ViewObject::Part::Item) return runtime_->tuple({key, value});
      return view.part == ViewObject::Part::Key ? key : value;
    }
    case Kind::Range: {
      const RangeObject& range = source_.as<RangeObject>();
      if (static_cast<int64_t>(at_) >= range.length) return Value();
      return Value::integer(range.start + static_cast<int64_t>(at_++) * range.step);
    }
    case Kind::Iterator:
      return source_.as<IteratorObject>().next(*runtime_);
    default:
      return Value();
  }
}

Values to_values(Runtime& runtime, const Value& source) {
  if (source.is(Kind::List) || source.is(Kind::Tuple)) {
    const Values& items = source.as<SequenceObject>().items;
    runtime.step(items.size() / 8);
    runtime.heap.demand(items.size() * sizeof(Value));
    return items;
  }
  Values items;
  Cursor cursor(runtime, source);
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    if (items.size() == items.capacity()) runtime.heap.demand(3 * items.size() * sizeof(Value));
    items.push_back(std::move(item));
  }
  return items;
}

Bound::Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> names, size_t required)
    : function_(function) {
  if (args.positional.size() > names.size()) {
    raise("{}() takes at most {} arguments ({} given)", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = args.positional[i];
  for (auto& [key, value] : args.keywords) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != key) ++i;
    if (i == names.size()) raise("{}() got an unexpected keyword argument '{}'", function, key);
    if (!values_[i].missing()) raise("{}() got multiple values for argument '{}'", function, key);
    values_[i] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i].missing()) raise("{}() missing required argument: '{}'", function, names.begin()[i]);
  }
}

int64_t Bound::integer(size_t index, int64_t otherwise) const {
  const Value& value = values_[index];
  if (value.missing()) return otherwise;
  if (value.is(Kind::BigInt)) return value.as<BigIntObject>().value.negative() ? INT64_MIN / 2 : INT64_MAX / 2;
  if (!value.is_integer()) raise("'{}' object cannot be interpreted as an integer", type_name(value));
  return value.small();
}

bool Bound::truth(Runtime& runtime, size_t index, bool otherwise) const {
  return values_[index].missing() ? otherwise : jinja::truth(runtime, values_[index]);
}

std::string_view Bound::text(size_t index, std::string_view otherwise) const {
  const Value& value = values_[index];
  if (value.missing()) return otherwise;
  if (!value.is(Kind::String)) raise("{}() argument {} must be str, not {}", function_, index + 1, type_name(value));
  return text_of(value);
}

}  // namespace cortiq::text::jinja
