#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

std::string_view subject_text(const Value& value, const char* filter) {
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (!value.is(Kind::String)) raise("the filter '{}' wants a string, not {}", filter, type_name(value));
  return text_of(value);
}

// A filter that is the str method of its name.
Value method(Runtime& runtime, const Value& value, std::string_view name, Args& args) {
  const std::span<const Method> methods = string_methods();
  const auto found = std::lower_bound(methods.begin(), methods.end(), name,
                                      [](const Method& m, std::string_view n) { return m.name < n; });
  return found->run(runtime, to_string(runtime, value), args);
}

Value upper_filter(Runtime& runtime, const Value& value, Args& args) { return method(runtime, value, "upper", args); }
Value lower_filter(Runtime& runtime, const Value& value, Args& args) { return method(runtime, value, "lower", args); }
Value capitalize_filter(Runtime& runtime, const Value& value, Args& args) {
  return method(runtime, value, "capitalize", args);
}

Value trim(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("trim", args, {"chars"});
  Args plain;
  if (bound.given(0)) plain.positional.push_back(bound[0]);
  return method(runtime, value, "strip", plain);
}

Value center(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("center", args, {"width"});
  Args plain;
  plain.positional.push_back(Value::integer(bound.integer(0, 80)));
  return method(runtime, value, "center", plain);
}

Value replace_filter(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const int64_t count = bound.has(2) ? bound.integer(2, -1) : -1;
  return runtime.string(replace(runtime, str(runtime, value), str(runtime, bound[0]), str(runtime, bound[1]), count));
}

// Words begin after white space and after - ( { [ <.
Value title_filter(Runtime& runtime, const Value& value, Args& args) {
  Bound("title", args, {});
  const Value subject = to_string(runtime, value);
  const std::string_view text = text_of(subject);
  runtime.step(text.size() / 4);
  runtime.heap.demand(text.size() * 3);
  std::string out;
  const auto put = [&](std::string_view word) {
    if (word.empty()) return;
    const size_t head = decode_utf8(word).size;
    out += upper(word.substr(0, head));
    out += lower(word.substr(head));
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    if (is_space(now.code) || (now.code < 0x80 && std::string_view("-({[<").find(text[at]) != std::string_view::npos)) {
      put(text.substr(begin, at - begin));
      out += text.substr(at, now.size);
      begin = at + now.size;
    }
    at += now.size;
  }
  put(text.substr(begin));
  return runtime.string(std::move(out));
}

Value default_filter(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  const bool replaced = value.is(Kind::Undefined) || (bound.truth(runtime, 1, false) && !truth(runtime, value));
  if (!replaced) return value;
  return bound.given(0) ? bound[0] : runtime.string("");
}

Value indent(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  const std::string_view subject = subject_text(value, "indent");
  const int64_t width = bound.given(0) && bound[0].is(Kind::String) ? 0 : bound.integer(0, 4);
  const std::string margin =
      bound.given(0) && bound[0].is(Kind::String) ? std::string(text_of(bound[0])) : pad(runtime, "", width, " ", 1);
  const bool blank = bound.truth(runtime, 2, false);
  const std::string text = std::string(subject) + "\n";  // so that there is a line even in an empty text
  std::string out = bound.truth(runtime, 1, false) ? margin : std::string();
  bool some = false;
  for (const std::string_view line : split_lines(runtime, text, false)) {
    if (some) {
      out += '\n';
      if (blank || !line.empty()) runtime.append(out, margin);
    }
    runtime.append(out, line);
    some = true;
  }
  return runtime.string(std::move(out), markup(value));
}

Value truncate(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t size = bound.integer(0, 255);
  const std::string end(bound.text(2, "..."));
  const int64_t leeway = bound.has(3) ? bound.integer(3, 5) : 5, tail = static_cast<int64_t>(count_codes(end));
  if (size < tail) raise("expected length >= {}, got {}", tail, size);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  const int64_t given = length(runtime, value);
  if (given >= 0 && given <= size + leeway) return value;
  const std::string_view text = subject_text(value, "truncate");
  std::string_view kept = text.substr(0, code_offset(text, static_cast<size_t>(size - tail)));
  if (!bound.truth(runtime, 1, false)) kept = split(runtime, kept, " ", 1, true)[0];
  return runtime.string(std::string(kept) + end, markup(value));
}

Value wordwrap(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const std::string glue(bound.has(2) ? bound.text(2) : "\n");
  const int64_t width = bound.integer(0, 79);
  std::string out;
  bool some = false;
  for (const std::string_view line : split_lines(runtime, subject_text(value, "wordwrap"), false)) {
    if (some) runtime.append(out, glue);
    some = true;
    bool inside = false;
    for (const std::string& part :
         wrap_words(runtime, line, width, bound.truth(runtime, 1, true), bound.truth(runtime, 3, true))) {
      if (inside) runtime.append(out, glue);
      inside = true;
      runtime.append(out, part);
    }
  }
  return runtime.string(std::move(out));
}

Value wordcount(Runtime& runtime, const Value& value, Args& args) {
  Bound("wordcount", args, {});
  const std::string text = str(runtime, value);
  runtime.step(text.size() / 8);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(std::string_view(text).substr(at));
    const bool word = now.code == '_' || (properties(now.code) & kAlphanumeric) != 0;
    words += word && !inside;
    inside = word;
    at += now.size;
  }
  return Value::integer(words);
}

Value string_filter(Runtime& runtime, const Value& value, Args& args) {
  Bound("string", args, {});
  return to_string(runtime, value);
}

Value format_filter(Runtime& runtime, const Value& value, Args& args) {
  if (!args.positional.empty() && !args.keywords.empty())
    raise("can't handle positional and keyword arguments at the same time");
  const Value format = to_string(runtime, value);
  Value values;
  if (args.keywords.empty()) {
    values = runtime.tuple(args.positional);
  } else {
    Entries entries;
    for (auto& [key, item] : args.keywords) entries.emplace_back(runtime.string(key), item);
    values = runtime.dict(std::move(entries));
  }
  return arithmetic(runtime, Arithmetic::Modulo, format, values);
}

Value attr(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const std::string name = str(runtime, bound[0]);
  // Unlike value.name it never looks for an item.
  if (value.is(Kind::Dict)) {
    const Value found = builtin_attribute(runtime, value, name);
    const bool known = !found.missing() || name == "pop" || name == "update" || name == "clear" || name == "popitem" ||
                       name == "setdefault";
    if (!known) return runtime.undefined(fmt::format("'dict object' has no attribute '{}'", name));
  }
  return get_attribute(runtime, value, name);
}

Value tojson(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.truth(runtime, 0, false);
  if (bound.has(1)) {
    style.pretty = true;
    style.item_separator = ",";
    style.indent =
        bound[1].is(Kind::String) ? std::string(text_of(bound[1])) : pad(runtime, "", bound.integer(1, 0), " ", 1);
  }
  if (bound.has(2)) {
    const Values parts = to_values(runtime, bound[2]);
    if (parts.size() != 2 || !parts[0].is(Kind::String) || !parts[1].is(Kind::String))
      raise("separators must be a pair of strings");
    style.item_separator = text_of(parts[0]);
    style.key_separator = text_of(parts[1]);
  }
  style.sort_keys = bound.truth(runtime, 3, false);
  return runtime.string(dump_json(runtime, value, style));
}

constexpr Filter kFilters[] = {
    {"attr", attr},
    {"capitalize", capitalize_filter},
    {"center", center},
    {"d", default_filter},
    {"default", default_filter},
    {"format", format_filter},
    {"indent", indent},
    {"lower", lower_filter},
    {"replace", replace_filter},
    {"string", string_filter},
    {"title", title_filter},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper_filter},
    {"wordcount", wordcount},
    {"wordwrap", wordwrap},
};

}  // namespace

std::span<const Filter> text_filters() { return kFilters; }

}  // namespace cortiq::text::jinja
