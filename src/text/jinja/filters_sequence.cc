#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

// sorted(): stable, by < alone; descending keeps the order of equals too.
template <class Key>
Values sorted(Runtime& runtime, Values items, bool reverse, Key key_of) {
  std::vector<std::pair<Value, Value>> keyed;
  runtime.heap.demand(items.size() * 2 * sizeof(keyed[0]));
  keyed.reserve(items.size());
  for (Value& item : items) {
    Value key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const auto& a, const auto& b) { return less(runtime, a.first, b.first); });
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  for (size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

Value sort(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool exact = bound.truth(runtime, 1, false);
  // Several attributes, separated by commas, compare one after the other.
  std::vector<AttributePath> paths;
  if (bound.has(2) && bound[2].is(Kind::String)) {
    for (const std::string_view part : split(runtime, text_of(bound[2]), ",", -1, false))
      paths.emplace_back(runtime, runtime.string(std::string(part)));
  } else {
    paths.emplace_back(runtime, bound.given(2) ? bound[2] : Value::none());
  }
  return runtime.list(
      sorted(runtime, to_values(runtime, value), bound.truth(runtime, 0, false), [&](const Value& item) {
        Values keys;
        for (const AttributePath& path : paths) {
          Value key = path.of(runtime, item);
          keys.push_back(exact ? std::move(key) : ignore_case(runtime, key));
        }
        return runtime.list(std::move(keys));
      }));
}

Value dictsort(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool exact = bound.truth(runtime, 0, false);
  const std::string_view by = bound.text(1, "key");
  if (by != "key" && by != "value") raise("You can only sort by either \"key\" or \"value\"");
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (!value.is(Kind::Dict)) raise("'{}' object has no attribute 'items'", type_name(value));
  Values pairs;
  for (const auto& [key, item] : value.as<DictObject>().entries) pairs.push_back(runtime.tuple({key, item}));
  return runtime.list(sorted(runtime, std::move(pairs), bound.truth(runtime, 2, false), [&](const Value& pair) {
    const Value& key = pair.as<SequenceObject>().items[by == "key" ? 0 : 1];
    return exact ? key : ignore_case(runtime, key);
  }));
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound(largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const bool exact = bound.truth(runtime, 0, false);
  const AttributePath path(runtime, bound.given(1) ? bound[1] : Value::none());
  Cursor cursor(runtime, value);
  Value best, best_key;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    Value key = path.of(runtime, item);
    if (!exact) key = ignore_case(runtime, key);
    if (best.missing() ||
        (largest ? compare(runtime, Relation::Greater, key, best_key) : less(runtime, key, best_key))) {
      best = item;
      best_key = key;
    }
  }
  return best.missing() ? runtime.undefined("No aggregated item, sequence was empty.") : best;
}

Value sum(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  const AttributePath path(runtime, bound.given(0) ? bound[0] : Value::none());
  Value total = bound.given(1) ? bound[1] : Value::integer(0);
  if (total.is(Kind::String)) raise("sum() can't sum strings [use ''.join(seq) instead]");
  Cursor cursor(runtime, value);
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    total = arithmetic(runtime, Arithmetic::Add, total, path.of(runtime, item));
  }
  return total;
}

Value first(Runtime& runtime, const Value& value, Args& args) {
  Bound("first", args, {});
  const Value item = Cursor(runtime, value).next();
  return item.missing() ? runtime.undefined("No first item, sequence was empty.") : item;
}

bool reversible(const Value& value) {
  return value.is(Kind::List) || value.is(Kind::Tuple) || value.is(Kind::Dict) || value.is(Kind::View) ||
         value.is(Kind::Range) || value.is(Kind::String) || value.is(Kind::Bytes) || value.is(Kind::Undefined);
}

Value last(Runtime& runtime, const Value& value, Args& args) {
  Bound("last", args, {});
  if (!reversible(value)) raise("'{}' object is not reversible", type_name(value));
  const int64_t size = length(runtime, value);
  if (size == 0) return runtime.undefined("No last item, sequence was empty.");
  if (!value.is(Kind::Dict) && !value.is(Kind::View)) return subscript(runtime, value, Value::integer(-1));
  return to_values(runtime, value).back();
}

struct ReversedIterator : IteratorObject {
  explicit ReversedIterator(Values items_) : IteratorObject("reversed"), items(std::move(items_)) {}
  void clear() noexcept override { items.clear(); }
  size_t extra() const noexcept override { return items.capacity() * sizeof(Value); }
  Value next(Runtime&) override {
    if (items.empty()) return Value();
    Value item = std::move(items.back());
    items.pop_back();
    return item;
  }
  Values items;
};

Value reverse(Runtime& runtime, const Value& value, Args& args) {
  Bound("reverse", args, {});
  if (value.is(Kind::String)) return slice(runtime, value, Value(), Value(), Value::integer(-1));
  Values items = to_values(runtime, value);
  if (reversible(value)) return runtime.heap.make<ReversedIterator>(std::move(items));
  std::reverse(items.begin(), items.end());
  return runtime.list(std::move(items));
}

Value join(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  const std::string separator = bound.given(0) ? str(runtime, bound[0]) : "";
  const AttributePath path(runtime, bound.given(1) ? bound[1] : Value::none());
  std::string out;
  Cursor cursor(runtime, value);
  bool some = false;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    if (some) runtime.append(out, separator);
    some = true;
    runtime.append(out, str(runtime, path.of(runtime, item)));
  }
  return runtime.string(std::move(out));
}

Value to_list(Runtime& runtime, const Value& value, Args& args) {
  Bound("list", args, {});
  return runtime.list(to_values(runtime, value));
}

Value count(Runtime& runtime, const Value& value, Args& args) {
  Bound("length", args, {});
  const int64_t size = length(runtime, value);
  if (size < 0) raise("object of type '{}' has no len()", type_name(value));
  return Value::integer(size);
}

using Body = Values (*)(Runtime& runtime, const Value& value, const Bound& bound);

// jinja2's generator filters: the call only looks at its arguments, the rest runs (and fails) when somebody asks for an
// item.
struct Deferred : IteratorObject {
  Deferred(Body body_, Value source_, Bound bound_)
      : IteratorObject("generator"), body(body_), source(std::move(source_)), bound(std::move(bound_)) {}
  void clear() noexcept override {
    body = nullptr;
    source = Value();
    bound.reset();
    items.clear();
  }
  size_t extra() const noexcept override { return items.capacity() * sizeof(Value); }
  Value next(Runtime& runtime) override {
    if (body) {
      const Nested nested(runtime);  // generators over generators nest here
      items = std::exchange(body, nullptr)(runtime, std::exchange(source, Value()), *bound);
      bound.reset();
      std::reverse(items.begin(), items.end());
    }
    if (items.empty()) return Value();
    Value item = std::move(items.back());
    items.pop_back();
    return item;
  }
  Body body;
  Value source;
  std::optional<Bound> bound;
  Values items;
};

Value defer(Runtime& runtime, Body body, const Value& value, Bound bound) {
  return runtime.heap.make<Deferred>(body, value, std::move(bound));
}

Values item_pairs(Runtime& runtime, const Value& value, const Bound&) {
  Values pairs;
  if (value.is(Kind::Dict)) {
    for (const auto& [key, item] : value.as<DictObject>().entries) pairs.push_back(runtime.tuple({key, item}));
  } else if (!value.is(Kind::Undefined)) {
    raise("Can only get item pairs from a mapping.");
  }
  return pairs;
}

Value items(Runtime& runtime, const Value& value, Args& args) {
  return defer(runtime, item_pairs, value, Bound("items", args, {}));
}

Values batches_of(Runtime& runtime, const Value& value, const Bound& bound) {
  const int64_t size = bound.integer(0, 1);
  Values batches, current;
  const auto flush = [&] {
    batches.push_back(runtime.list(std::move(current)));
    current = Values();
  };
  for (Value& item : to_values(runtime, value)) {
    if (static_cast<int64_t>(current.size()) == size) flush();
    current.push_back(std::move(item));
  }
  if (!current.empty()) {
    const auto lacking = size - static_cast<int64_t>(current.size());
    if (bound.has(1) && lacking > 0) {
      if (lacking > (1 << 20)) raise("a batch of {} items is larger than allowed", size);
      runtime.heap.demand(static_cast<size_t>(lacking) * sizeof(Value));
      current.insert(current.end(), static_cast<size_t>(lacking), bound[1]);
    }
    flush();
  }
  return batches;
}

Value batch(Runtime& runtime, const Value& value, Args& args) {
  return defer(runtime, batches_of, value, Bound("batch", args, {"linecount", "fill_with"}, 1));
}

Values slices_of(Runtime& runtime, const Value& value, const Bound& bound) {
  const Values all = to_values(runtime, value);
  const int64_t count = bound.integer(0, 1), size = static_cast<int64_t>(all.size());
  if (count == 0) raise("integer division or modulo by zero");
  if (count > 100000) raise("{} slices are more than allowed", count);
  Values result;
  const int64_t each = count > 0 ? size / count : 0, extra = count > 0 ? size % count : 0;
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t end = at + each + (i < extra ? 1 : 0);
    Values part(all.begin() + at, all.begin() + end);
    if (bound.has(1) && i >= extra) part.push_back(bound[1]);
    result.push_back(runtime.list(std::move(part)));
    at = end;
  }
  return result;
}

Value slices(Runtime& runtime, const Value& value, Args& args) {
  return defer(runtime, slices_of, value, Bound("slice", args, {"slices", "fill_with"}, 1));
}

constexpr const char* kGroupFields[] = {"grouper", "list"};

Value groupby(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(runtime, bound[0]);
  const Value otherwise = bound.has(1) ? bound[1] : Value();
  const bool exact = bound.truth(runtime, 2, false);
  const auto key_of = [&](const Value& item) {
    Value key = path.of(runtime, item, otherwise);
    return exact ? key : ignore_case(runtime, key);
  };
  const Values items = sorted(runtime, to_values(runtime, value), false, key_of);
  Values groups;
  for (size_t i = 0; i < items.size();) {
    const Value key = key_of(items[i]);
    // The group is called by the first of its values, as it is spelled there.
    const Value shown = path.of(runtime, items[i], otherwise);
    Values members;
    for (; i < items.size() && equal(runtime, key_of(items[i]), key); ++i) members.push_back(items[i]);
    Values pair{shown, runtime.list(std::move(members))};
    groups.push_back(runtime.heap.make<SequenceObject>(Kind::Tuple, std::move(pair), kGroupFields));
  }
  return runtime.list(std::move(groups));
}

Values unique_of(Runtime& runtime, const Value& value, const Bound& bound) {
  const bool exact = bound.truth(runtime, 0, false);
  const AttributePath path(runtime, bound.given(1) ? bound[1] : Value::none());
  Values result, keys;
  std::unordered_multimap<size_t, size_t> seen;
  Cursor cursor(runtime, value);
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    Value key = path.of(runtime, item);
    if (!exact) key = ignore_case(runtime, key);
    const size_t code = hash(runtime, key);
    const auto [begin, end] = seen.equal_range(code);
    if (std::any_of(begin, end, [&](const auto& entry) { return equal(runtime, keys[entry.second], key); })) continue;
    runtime.heap.demand(keys.size() * 120);
    seen.emplace(code, keys.size());
    keys.push_back(std::move(key));
    result.push_back(std::move(item));
  }
  return result;
}

Value unique(Runtime& runtime, const Value& value, Args& args) {
  return defer(runtime, unique_of, value, Bound("unique", args, {"case_sensitive", "attribute"}));
}

Value random(Runtime&, const Value&, Args&) {
  raise("the filter 'random' is not supported: a prompt must not be random");
}

constexpr Filter kFilters[] = {
    {"batch", batch},     {"count", count},     {"dictsort", dictsort}, {"first", first},
    {"groupby", groupby}, {"items", items},     {"join", join},         {"last", last},
    {"length", count},    {"list", to_list},    {"max", extreme<true>}, {"min", extreme<false>},
    {"random", random},   {"reverse", reverse}, {"slice", slices},      {"sort", sort},
    {"sum", sum},         {"unique", unique},
};

}  // namespace

std::span<const Filter> sequence_filters() { return kFilters; }

AttributePath::AttributePath(Runtime& runtime, const Value& attribute) {
  if (attribute.none_or_missing()) return;
  if (!attribute.is(Kind::String)) {
    parts_.push_back(attribute);
    return;
  }
  for (const std::string_view part : split(runtime, text_of(attribute), ".", -1, false)) {
    const bool number = !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(number ? Value::integer(std::stoll(std::string(part))) : runtime.string(std::string(part)));
  }
}

Value AttributePath::of(Runtime& runtime, Value item, const Value& otherwise) const {
  for (const Value& part : parts_) {
    item = get_item(runtime, item, part);
    if (!otherwise.missing() && item.is(Kind::Undefined)) item = otherwise;
  }
  return item;
}

Value ignore_case(Runtime& runtime, const Value& value) {
  if (!value.is(Kind::String)) return value;
  runtime.step(text_of(value).size() / 4);
  return runtime.string(lower(text_of(value)), markup(value));
}

}  // namespace cortiq::text::jinja
