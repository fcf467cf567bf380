#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

Value like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.string(std::move(text), markup(self));
}

// An argument that becomes part of markup is escaped, as markupsafe does.
std::string part(const Value& self, std::string_view text, const Value& argument) {
  return markup(self) && !markup(argument) ? escape_html(text) : std::string(text);
}

Value pieces_list(Runtime& runtime, const Value& self, const Pieces& pieces, Kind kind = Kind::List) {
  Values items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(like(runtime, self, std::string(piece)));
  return runtime.heap.make<SequenceObject>(kind, std::move(items));
}

template <std::string (*change)(std::string_view)>
Value changed(Runtime& runtime, const Value& self, Args& args) {
  Bound("str method", args, {});
  runtime.step(text_of(self).size());
  runtime.heap.demand(text_of(self).size() * 3);
  return runtime.string(change(text_of(self)), markup(self) && change != casefold);
}

template <bool left, bool right>
Value stripped(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("strip", args, {"/chars"});
  if (bound.has(0)) bound.text(0);
  const std::string chars = bound.has(0) ? part(self, bound.text(0), bound[0]) : std::string();
  runtime.step(text_of(self).size() / 4 * (1 + chars.size()));
  return like(runtime, self,
              std::string(strip(text_of(self),
                                bound.has(0) ? std::string_view(chars.c_str(), chars.size()) : std::string_view(), left,
                                right)));
}

template <bool from_right>
Value splits(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound(from_right ? "rsplit" : "split", args, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  return pieces_list(runtime, self,
                     bound.has(0) ? split(runtime, text_of(self), bound.text(0), limit, from_right)
                                  : split_space(runtime, text_of(self), limit, from_right));
}

Value splitlines(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  return pieces_list(runtime, self, split_lines(runtime, text_of(self), bound.truth(runtime, 0, false)));
}

template <bool from_right>
Value partitions(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("partition", args, {"/sep"}, 1);
  const std::string separator = part(self, bound.text(0), bound[0]);
  if (separator.empty()) raise("empty separator");
  const std::string_view text = text_of(self);
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == text.npos)
    return pieces_list(runtime, self, from_right ? Pieces{"", "", text} : Pieces{text, "", ""}, Kind::Tuple);
  return pieces_list(runtime, self, {text.substr(0, at), separator, text.substr(at + separator.size())}, Kind::Tuple);
}

// The part of the text that optional start and end arguments select; false if the start lies beyond the end.
bool window(Runtime& runtime, const Bound& bound, std::string_view& text, size_t& skipped) {
  runtime.step(1 + text.size() / 64);
  if (!bound.has(1) && !bound.has(2)) return true;
  runtime.step(text.size() / 4);
  const auto size = static_cast<int64_t>(count_codes(text));
  const auto clamp = [&](size_t index, int64_t otherwise) {
    int64_t at = bound.has(index) ? bound.integer(index, 0) : otherwise;
    if (at < 0) at = std::max<int64_t>(at + size, 0);
    return at;
  };
  const int64_t start = clamp(1, 0), end = std::min(clamp(2, size), size);
  if (start > end) return false;
  skipped = static_cast<size_t>(start);
  const size_t begin = code_offset(text, skipped);
  text = text.substr(begin, code_offset(text, static_cast<size_t>(end)) - begin);
  return true;
}

template <bool from_right, bool demanded>
Value finds(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound(demanded ? "index" : "find", args, {"/sub", "/start", "/end"}, 1);
  std::string_view text = text_of(self);
  size_t skipped = 0;
  if (window(runtime, bound, text, skipped)) {
    const size_t at = from_right ? text.rfind(bound.text(0)) : text.find(bound.text(0));
    if (at != text.npos) return Value::integer(static_cast<int64_t>(skipped + count_codes(text.substr(0, at))));
  }
  if (demanded) raise("substring not found");
  return Value::integer(-1);
}

Value counts(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("count", args, {"/sub", "/start", "/end"}, 1);
  std::string_view text = text_of(self);
  size_t skipped = 0;
  runtime.step(text.size() / 4);
  return Value::integer(window(runtime, bound, text, skipped) ? count(text, bound.text(0)) : 0);
}

template <bool at_end>
Value matches(Runtime& runtime, const Value& self, Args& args) {
  const char* name = at_end ? "endswith" : "startswith";
  const Bound bound(name, args, {"/prefix", "/start", "/end"}, 1);
  std::string_view text = text_of(self);
  size_t skipped = 0;
  const bool inside = window(runtime, bound, text, skipped);
  const auto one = [&](const Value& wanted) {
    if (!wanted.is(Kind::String)) raise("{} first arg must be str or a tuple of str, not {}", name, type_name(wanted));
    return inside && (at_end ? text.ends_with(text_of(wanted)) : text.starts_with(text_of(wanted)));
  };
  if (!bound[0].is(Kind::Tuple)) return Value::boolean(one(bound[0]));
  for (const Value& wanted : bound[0].as<SequenceObject>().items) {
    if (one(wanted)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value replaces(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("replace", args, {"/old", "/new", "/count"}, 2);
  return like(runtime, self,
              replace(runtime, text_of(self), part(self, bound.text(0), bound[0]), part(self, bound.text(1), bound[1]),
                      bound.integer(2, -1)));
}

Value joins(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("join", args, {"/iterable"}, 1);
  std::string out;
  Cursor cursor(runtime, bound[0]);
  int64_t index = 0;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next(), ++index) {
    if (!item.is(Kind::String)) {
      if (!markup(self)) raise("sequence item {}: expected str instance, {} found", index, type_name(item));
      item = to_string(runtime, item);
    }
    if (index > 0) runtime.append(out, text_of(self));
    runtime.append(out, part(self, text_of(item), item));
  }
  return like(runtime, self, std::move(out));
}

Value formats(Runtime& runtime, const Value& self, Args& args) {
  return like(runtime, self, format_braces(runtime, text_of(self), args, markup(self)));
}

Value format_maps(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("format_map", args, {"/mapping"}, 1);
  if (!bound[0].is(Kind::Dict)) raise("format_map() needs a mapping, not {}", type_name(bound[0]));
  Args fields;
  for (const auto& [key, value] : bound[0].as<DictObject>().entries) {
    if (key.is(Kind::String)) fields.keywords.emplace_back(std::string(text_of(key)), value);
  }
  return like(runtime, self, format_braces(runtime, text_of(self), fields, markup(self)));
}

template <uint32_t wanted>
Value consists(Runtime& runtime, const Value& self, Args& args) {
  Bound("str method", args, {});
  runtime.step(text_of(self).size());
  return Value::boolean(all_have(text_of(self), wanted));
}

template <bool (*question)(std::string_view)>
Value asks(Runtime& runtime, const Value& self, Args& args) {
  Bound("str method", args, {});
  runtime.step(text_of(self).size());
  return Value::boolean(question(text_of(self)));
}

bool space_only(std::string_view text) { return !text.empty() && strip(text, {}, true, false).empty(); }
bool ascii_only(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool printable_only(std::string_view text) { return text.empty() || all_have(text, kPrintable); }
bool identifier(std::string_view text) {
  return !text.empty() && (properties(decode_utf8(text).code) & kIdentifierStart) != 0 &&
         all_have(text, kIdentifierPart);
}

template <int more>
Value padded(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("just", args, {"/width", "/fillchar"}, 1);
  const std::string fill = bound.given(1) ? part(self, bound.text(1), bound[1]) : " ";
  if (count_codes(fill) != 1) raise("The fill character must be exactly one character long");
  return like(runtime, self, pad(runtime, text_of(self), bound.integer(0, 0), fill, more));
}

Value zfill(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("zfill", args, {"/width"}, 1);
  std::string_view text = text_of(self);
  std::string sign;
  if (text.starts_with('+') || text.starts_with('-')) {
    sign = text.substr(0, 1);
    text.remove_prefix(1);
  }
  return like(runtime, self,
              sign + pad(runtime, text, bound.integer(0, 0) - static_cast<int64_t>(sign.size()), "0", -1));
}

Value tabs(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  return like(runtime, self, expand_tabs(runtime, text_of(self), bound.integer(0, 8)));
}

template <bool suffix>
Value removes(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("removeprefix", args, {"/prefix"}, 1);
  std::string_view text = text_of(self);
  const std::string_view fix = bound.text(0);
  if (suffix ? text.ends_with(fix) : text.starts_with(fix))
    text = suffix ? text.substr(0, text.size() - fix.size()) : text.substr(fix.size());
  return runtime.string(std::string(text));
}

Value encode(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("encode", args, {"encoding", "errors"});
  const std::string name = lower(bound.text(0, "utf-8"));
  if (name != "utf-8" && name != "utf8" && !((name == "ascii" || name == "us-ascii") && ascii_only(text_of(self)))) {
    raise("encoding '{}' is not supported in templates", name);
  }
  return runtime.heap.make<BytesObject>(std::string(text_of(self)));
}

constexpr Method kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<casefold>},
    {"center", padded<0>},
    {"count", counts},
    {"encode", encode},
    {"endswith", matches<true>},
    {"expandtabs", tabs},
    {"find", finds<false, false>},
    {"format", formats},
    {"format_map", format_maps},
    {"index", finds<false, true>},
    {"isalnum", consists<kAlphanumeric>},
    {"isalpha", consists<kAlpha>},
    {"isascii", asks<ascii_only>},
    {"isdecimal", consists<kDecimal>},
    {"isdigit", consists<kDigit>},
    {"isidentifier", asks<identifier>},
    {"islower", asks<is_lower>},
    {"isnumeric", consists<kNumeric>},
    {"isprintable", asks<printable_only>},
    {"isspace", asks<space_only>},
    {"istitle", asks<is_title>},
    {"isupper", asks<is_upper>},
    {"join", joins},
    {"ljust", padded<1>},
    {"lower", changed<lower>},
    {"lstrip", stripped<true, false>},
    {"partition", partitions<false>},
    {"removeprefix", removes<false>},
    {"removesuffix", removes<true>},
    {"replace", replaces},
    {"rfind", finds<true, false>},
    {"rindex", finds<true, true>},
    {"rjust", padded<-1>},
    {"rpartition", partitions<true>},
    {"rsplit", splits<true>},
    {"rstrip", stripped<false, true>},
    {"split", splits<false>},
    {"splitlines", splitlines},
    {"startswith", matches<false>},
    {"strip", stripped<true, true>},
    {"swapcase", changed<swapcase>},
    {"title", changed<title>},
    {"upper", changed<upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const Method> string_methods() { return kMethods; }

}  // namespace cortiq::text::jinja
