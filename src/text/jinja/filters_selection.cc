#include "text/jinja/functions.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

// A generator over another iterable: nothing runs before somebody asks for an item.
struct Lazy : IteratorObject {
  Lazy(Value source_, Args args_) : IteratorObject("generator"), source(std::move(source_)), args(std::move(args_)) {}
  void clear() noexcept override {
    source = Value();
    args = Args();
    if (cursor) cursor->clear();
  }
  Value next(Runtime& runtime) override {
    if (done) return Value();
    const Nested nested(runtime);  // generators over generators nest here
    if (!cursor) {
      // jinja2 asks `if value:` first, so None and undefined give nothing.
      if (!truth(runtime, source)) {
        done = true;
        return Value();
      }
      prepare(runtime);
      cursor.emplace(runtime, source);
    }
    Value item = advance(runtime);
    done = item.missing();
    return item;
  }
  virtual void prepare(Runtime& runtime) = 0;
  virtual Value advance(Runtime& runtime) = 0;

  Value source;
  Args args;
  std::optional<Cursor> cursor;
  bool done = false;
};

Value take_first(Args& args) {
  Value first = std::move(args.positional.front());
  args.positional.erase(args.positional.begin());
  return first;
}

std::string name_of(const Value& value, const char* what) {
  if (!value.is(Kind::String)) raise("the name of a {} must be a string, not {}", what, type_name(value));
  return std::string(text_of(value));
}

struct MapIterator : Lazy {
  using Lazy::Lazy;
  void prepare(Runtime& runtime) override {
    if (args.positional.empty()) {
      Value attribute;
      for (auto& [key, value] : args.keywords) {
        if (key == "attribute") {
          attribute = value;
        } else if (key == "default") {
          otherwise = value.is(Kind::None) ? Value() : value;
        } else {
          raise("Unexpected keyword argument '{}'", key);
        }
      }
      if (attribute.missing()) raise("map requires a filter argument");
      path.emplace(runtime, attribute);
      return;
    }
    filter = name_of(take_first(args), "filter");
  }
  Value advance(Runtime& runtime) override {
    Value item = cursor->next();
    if (item.missing()) return item;
    if (path) return path->of(runtime, std::move(item), otherwise);
    Args copy = args;
    return runtime.call_filter(filter, item, copy);
  }
  void clear() noexcept override {
    Lazy::clear();
    path.reset();
    otherwise = Value();
  }
  std::optional<AttributePath> path;
  Value otherwise;
  std::string filter;
};

template <bool wanted, bool by_attribute>
struct SelectIterator : Lazy {
  using Lazy::Lazy;
  void prepare(Runtime& runtime) override {
    if (by_attribute) {
      if (args.positional.empty()) raise("Missing parameter for attribute name");
      path.emplace(runtime, take_first(args));
    }
    if (!args.positional.empty()) test = name_of(take_first(args), "test");
  }
  Value advance(Runtime& runtime) override {
    for (Value item = cursor->next(); !item.missing(); item = cursor->next()) {
      const Value subject = path ? path->of(runtime, item) : item;
      Args copy = args;
      if ((test.empty() ? truth(runtime, subject) : runtime.call_test(test, subject, copy)) == wanted) return item;
    }
    return Value();
  }
  void clear() noexcept override {
    Lazy::clear();
    path.reset();
  }
  std::optional<AttributePath> path;
  std::string test;
};

template <class Iterator>
Value lazy(Runtime& runtime, const Value& value, Args& args) {
  return runtime.heap.make<Iterator>(value, std::move(args));
}

constexpr Filter kFilters[] = {
    {"map", lazy<MapIterator>},
    {"reject", lazy<SelectIterator<false, false>>},
    {"rejectattr", lazy<SelectIterator<false, true>>},
    {"select", lazy<SelectIterator<true, false>>},
    {"selectattr", lazy<SelectIterator<true, true>>},
};

}  // namespace

std::span<const Filter> selection_filters() { return kFilters; }

}  // namespace cortiq::text::jinja
