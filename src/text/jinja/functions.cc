#include "text/jinja/functions.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <unordered_map>

#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

// ---- tests ----

Value operand(const char* name, Args& args) { return Bound(name, args, {"other"}, 1)[0]; }
void no_arguments(const char* name, Args& args) { Bound(name, args, {}); }

template <Relation relation>
bool test_relation(Runtime& runtime, const Value& value, Args& args) {
  return compare(runtime, relation, value, operand("comparison", args));
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t wanted) {
  return equal(runtime, arithmetic(runtime, Arithmetic::Modulo, value, divisor), Value::integer(wanted));
}
bool test_odd(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("odd", args);
  return remainder_is(runtime, value, Value::integer(2), 1);
}
bool test_even(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("even", args);
  return remainder_is(runtime, value, Value::integer(2), 0);
}
bool test_divisible(Runtime& runtime, const Value& value, Args& args) {
  return remainder_is(runtime, value, Bound("divisibleby", args, {"num"}, 1)[0], 0);
}
bool test_iterable(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("iterable", args);
  return iterable(value) || (value.is(Kind::Callable) && value.as<CallableObject>().length(runtime) >= 0);
}
bool test_sequence(Runtime&, const Value& value, Args& args) {
  no_arguments("sequence", args);
  switch (value.kind()) {
    case Kind::Undefined:
    case Kind::String:
    case Kind::Bytes:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
    case Kind::Range:
      return true;
    default:
      return false;
  }
}
bool test_callable(Runtime&, const Value& value, Args& args) {
  no_arguments("callable", args);
  return value.is(Kind::Undefined) || (value.is(Kind::Callable) && value.as<CallableObject>().callable());
}
bool test_sameas(Runtime&, const Value& value, Args& args) { return identical(value, operand("sameas", args)); }
bool test_lower(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("lower", args);
  return is_lower(str(runtime, value));
}
bool test_upper(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("upper", args);
  return is_upper(str(runtime, value));
}
bool test_filter(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("filter", args);
  hash(runtime, value);
  return value.is(Kind::String) && find_filter(text_of(value)) != nullptr;
}
bool test_test(Runtime& runtime, const Value& value, Args& args) {
  no_arguments("test", args);
  hash(runtime, value);
  return value.is(Kind::String) && find_test(text_of(value)) != nullptr;
}

template <bool (*question)(const Value&)>
bool test_kind(Runtime&, const Value& value, Args& args) {
  no_arguments("test", args);
  return question(value);
}
bool is_defined(const Value& value) { return !value.is(Kind::Undefined); }
bool is_undefined(const Value& value) { return value.is(Kind::Undefined); }
bool is_none(const Value& value) { return value.is(Kind::None); }
bool is_boolean(const Value& value) { return value.is(Kind::Bool); }
bool is_true(const Value& value) { return value.is(Kind::Bool) && value.small() != 0; }
bool is_false(const Value& value) { return value.is(Kind::Bool) && value.small() == 0; }
bool is_whole(const Value& value) { return value.is(Kind::Int) || value.is(Kind::BigInt); }
bool is_real(const Value& value) { return value.is(Kind::Float); }
bool is_any_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is(Kind::String); }
bool is_mapping(const Value& value) { return value.is(Kind::Dict); }

constexpr Test kTests[] = {
    {"odd", test_odd},
    {"even", test_even},
    {"divisibleby", test_divisible},
    {"defined", test_kind<is_defined>},
    {"undefined", test_kind<is_undefined>},
    {"filter", test_filter},
    {"test", test_test},
    {"none", test_kind<is_none>},
    {"boolean", test_kind<is_boolean>},
    {"false", test_kind<is_false>},
    {"true", test_kind<is_true>},
    {"integer", test_kind<is_whole>},
    {"float", test_kind<is_real>},
    {"lower", test_lower},
    {"upper", test_upper},
    {"string", test_kind<is_string>},
    {"mapping", test_kind<is_mapping>},
    {"number", test_kind<is_any_number>},
    {"sequence", test_sequence},
    {"iterable", test_iterable},
    {"callable", test_callable},
    {"sameas", test_sameas},
    {"escaped", test_kind<markup>},
    {"in", test_relation<Relation::In>},
    {"==", test_relation<Relation::Equal>},
    {"eq", test_relation<Relation::Equal>},
    {"equalto", test_relation<Relation::Equal>},
    {"!=", test_relation<Relation::NotEqual>},
    {"ne", test_relation<Relation::NotEqual>},
    {">", test_relation<Relation::Greater>},
    {"gt", test_relation<Relation::Greater>},
    {"greaterthan", test_relation<Relation::Greater>},
    {"ge", test_relation<Relation::GreaterEqual>},
    {">=", test_relation<Relation::GreaterEqual>},
    {"<", test_relation<Relation::Less>},
    {"lt", test_relation<Relation::Less>},
    {"lessthan", test_relation<Relation::Less>},
    {"<=", test_relation<Relation::LessEqual>},
    {"le", test_relation<Relation::LessEqual>},
};

// ---- global functions ----

Value make_range(Runtime& runtime, Args& args) {
  const Bound bound("range", args, {"/start", "/stop", "/step"}, 1);
  const bool one = !bound.given(1);
  const int64_t start = one ? 0 : bound.integer(0, 0), stop = one ? bound.integer(0, 0) : bound.integer(1, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  constexpr int64_t kFar = int64_t{1} << 60;
  const auto near = [](int64_t value) { return value > -kFar && value < kFar; };
  const int64_t span = near(start) && near(stop) && near(step) ? (step > 0 ? stop - start : start - stop) : kFar;
  const int64_t stride = step > 0 ? step : -step;
  const int64_t length = span <= 0 ? 0 : (span - 1) / stride + 1;
  if (length > 100000) raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return runtime.heap.make<RangeObject>(start, stop, step, length);
}

Entries dict_entries(Runtime& runtime, const char* name, Args& args) {
  if (args.positional.size() > 1) raise("{} expected at most 1 argument, got {}", name, args.positional.size());
  Entries entries;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::Dict)) {
      entries = source.as<DictObject>().entries;
    } else {
      Cursor cursor(runtime, source);
      for (Value pair = cursor.next(); !pair.missing(); pair = cursor.next()) {
        Values parts = to_values(runtime, pair);
        if (parts.size() != 2) raise("dictionary update sequence element has length {}; 2 is required", parts.size());
        entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (auto& [key, value] : args.keywords) entries.emplace_back(runtime.string(key), value);
  return entries;
}

Value make_dict(Runtime& runtime, Args& args) { return runtime.dict(dict_entries(runtime, "dict", args)); }

Value make_namespace(Runtime& runtime, Args& args) {
  const Value attributes = runtime.dict(dict_entries(runtime, "namespace", args));
  for (const auto& [key, value] : attributes.as<DictObject>().entries) {
    if (!key.is(Kind::String)) raise("the names of a namespace must be strings, not {}", type_name(key));
  }
  return runtime.heap.make<NamespaceObject>(attributes.as<DictObject>().entries);
}

struct Cycler : CallableObject {
  explicit Cycler(Values items_) : items(std::move(items_)) {}
  void clear() noexcept override { items.clear(); }
  Value call(Runtime&, Args&) override { raise("'Cycler' object is not callable"); }
  Value attribute(Runtime& runtime, std::string_view name) override;
  bool callable() const override { return false; }
  std::string repr() const override { return "<Cycler object>"; }
  const char* type() const override { return "Cycler"; }
  Values items;
  size_t at = 0;
};

template <bool reset>
struct CyclerMethod : CallableObject {
  explicit CyclerMethod(Value cycler_) : cycler(std::move(cycler_)) {}
  void clear() noexcept override { cycler = Value(); }
  Value call(Runtime&, Args& args) override {
    no_arguments(reset ? "reset" : "next", args);
    Cycler& owner = cycler.as<Cycler>();
    const size_t now = owner.at;
    owner.at = reset ? 0 : (now + 1) % owner.items.size();
    return reset ? Value::none() : owner.items[now];
  }
  std::string repr() const override { return "<bound method of Cycler>"; }
  const char* type() const override { return "method"; }
  Value cycler;
};

Value Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "next") return runtime.heap.make<CyclerMethod<false>>(Value::of(this));
  if (name == "reset") return runtime.heap.make<CyclerMethod<true>>(Value::of(this));
  if (name == "current") return items[at];
  if (name == "pos") return Value::integer(static_cast<int64_t>(at));
  if (name == "items") return runtime.tuple(items);
  return Value();
}

Value make_cycler(Runtime& runtime, Args& args) {
  if (!args.keywords.empty()) raise("cycler() takes no keyword arguments");
  if (args.positional.empty()) raise("at least one item has to be provided");
  return runtime.heap.make<Cycler>(std::move(args.positional));
}

struct Joiner : CallableObject {
  explicit Joiner(Value separator_) : separator(std::move(separator_)) {}
  void clear() noexcept override { separator = Value(); }
  Value call(Runtime& runtime, Args& args) override {
    no_arguments("joiner", args);
    if (used) return separator;
    used = true;
    return runtime.string("");
  }
  Value attribute(Runtime&, std::string_view name) override {
    return name == "sep" ? separator : name == "used" ? Value::boolean(used) : Value();
  }
  std::string repr() const override { return "<Joiner object>"; }
  const char* type() const override { return "Joiner"; }
  Value separator;
  bool used = false;
};

Value make_joiner(Runtime& runtime, Args& args) {
  const Bound bound("joiner", args, {"sep"});
  return runtime.heap.make<Joiner>(bound.given(0) ? bound[0] : runtime.string(", "));
}

Value lorem_ipsum(Runtime&, Args&) { raise("lipsum() makes random text, and a prompt must not be random"); }

Value raise_exception(Runtime& runtime, Args& args) {
  throw Failure{str(runtime, Bound("raise_exception", args, {"message"}, 1)[0]), true};
}

// datetime.strftime of a naive date: %f is microseconds, %z and %Z are empty, the rest is the C library's.
Value strftime_now(Runtime& runtime, Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  std::string format;
  const std::string_view wanted = bound.text(0);
  if (wanted.size() > 10000) raise("the date format is longer than 10000 bytes");
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != '%' || i + 1 == wanted.size()) {
      format += wanted[i];
      continue;
    }
    const char c = wanted[++i];
    if (c == 'f') {
      format += "000000";
    } else if (c != 'z' && c != 'Z') {
      format += '%';
      format += c;
    }
  }
  // One character more, so that an empty result differs from a full buffer.
  format += ' ';
  for (size_t i = 0; i + 1 < format.size(); ++i) {
    if (format[i] == '\0') raise("embedded null character");
    if (format[i] == '%' && format[i + 1] >= '0' && format[i + 1] <= '9')
      raise("field widths in date formats are not supported");
  }
  std::string text(format.size() * 40 + 100, '\0');
  const size_t size = std::strftime(text.data(), text.size(), format.c_str(), &runtime.now());
  if (size == 0) raise("the date format gives too long a text");
  text.resize(size - 1);
  return runtime.string(std::move(text));
}

constexpr Global kGlobals[] = {
    {"range", make_range, "<function safe_range>"},
    {"dict", make_dict, "<class 'dict'>"},
    {"namespace", make_namespace, "<class 'jinja2.utils.Namespace'>"},
    {"cycler", make_cycler, "<class 'jinja2.utils.Cycler'>"},
    {"joiner", make_joiner, "<class 'jinja2.utils.Joiner'>"},
    {"lipsum", lorem_ipsum, "<function generate_lorem_ipsum>"},
    {"raise_exception", raise_exception, "<function raise_exception>"},
    {"strftime_now", strftime_now, "<function strftime_now>"},
};

struct GlobalFunction : CallableObject {
  explicit GlobalFunction(const Global& global_) : global(global_) {}
  Value call(Runtime& runtime, Args& args) override { return global.run(runtime, args); }
  std::string repr() const override { return global.repr; }
  const Global& global;
};

template <class Row, class... Tables>
std::unordered_map<std::string_view, const Row*> index_of(Tables... tables) {
  std::unordered_map<std::string_view, const Row*> index;
  const auto add = [&](std::span<const Row> rows) {
    for (const Row& row : rows) index.emplace(row.name, &row);
  };
  (add(tables), ...);
  return index;
}

}  // namespace

const Filter* find_filter(std::string_view name) noexcept {
  static const auto index =
      index_of<Filter>(text_filters(), html_filters(), number_filters(), sequence_filters(), selection_filters());
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const Test* find_test(std::string_view name) noexcept {
  static const auto index = index_of<Test>(std::span<const Test>(kTests));
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

std::span<const Global> globals() noexcept { return kGlobals; }

Value make_global(Runtime& runtime, const Global& global) { return runtime.heap.make<GlobalFunction>(global); }

}  // namespace cortiq::text::jinja
