#include <algorithm>

#include "text/jinja/functions.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

Value escape_filter(Runtime& runtime, const Value& value, Args& args) {
  Bound("escape", args, {});
  return escape(runtime, value);
}

Value force_escape(Runtime& runtime, const Value& value, Args& args) {
  Bound("forceescape", args, {});
  return escape(runtime, runtime.string(str(runtime, value)));
}

Value safe(Runtime& runtime, const Value& value, Args& args) {
  Bound("safe", args, {});
  return runtime.string(str(runtime, value), true);
}

void quote_url(std::string& out, std::string_view text, bool query) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && std::isalnum(byte) != 0) || c == '_' || c == '.' || c == '-' || c == '~' ||
        (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 0xF];
    }
  }
}

Value urlencode(Runtime& runtime, const Value& value, Args& args) {
  Bound("urlencode", args, {});
  std::string out;
  if (value.is(Kind::String) || !iterable(value)) {
    const std::string text = str(runtime, value);
    runtime.grow(out, 3 * text.size());
    quote_url(out, text, false);
    return runtime.string(std::move(out));
  }
  Value source = value;
  if (value.is(Kind::Dict)) source = runtime.heap.make<ViewObject>(value, ViewObject::Part::Item);
  Cursor cursor(runtime, source);
  for (Value pair = cursor.next(); !pair.missing(); pair = cursor.next()) {
    const Values parts = to_values(runtime, pair);
    if (parts.size() != 2) raise("urlencode wants pairs, not {} values", parts.size());
    if (!out.empty()) out += '&';
    const std::string key = str(runtime, parts[0]), text = str(runtime, parts[1]);
    runtime.grow(out, 3 * (key.size() + text.size()));
    quote_url(out, key, true);
    out += '=';
    quote_url(out, text, true);
  }
  return runtime.string(std::move(out));
}

Value xmlattr(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("xmlattr", args, {"autospace"});
  if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
  if (!value.is(Kind::Dict)) raise("'{}' object has no attribute 'items'", type_name(value));
  std::string out;
  for (const auto& [key, item] : value.as<DictObject>().entries) {
    if (item.is(Kind::None) || item.is(Kind::Undefined)) continue;
    if (!key.is(Kind::String)) raise("expected string as attribute name, not {}", type_name(key));
    if (text_of(key).find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      raise("Invalid character in attribute name: {}", repr(runtime, key));
    if (!out.empty() || bound.truth(runtime, 0, true)) out += ' ';
    runtime.append(out, text_of(escape(runtime, key)));
    out += "=\"";
    runtime.append(out, text_of(escape(runtime, item)));
    out += '"';
  }
  return runtime.string(std::move(out));
}

// Comments and tags removed, white space collapsed, entities decoded.
Value striptags(Runtime& runtime, const Value& value, Args& args) {
  Bound("striptags", args, {});
  std::string text = str(runtime, value);
  const auto remove = [&](std::string_view open, std::string_view close) {
    std::string kept;
    size_t at = 0;
    for (size_t begin = text.find(open); begin != text.npos; begin = text.find(open, at)) {
      const size_t end = text.find(close, begin);
      if (end == text.npos) break;
      kept.append(text, at, begin - at);
      at = end + close.size();
    }
    kept.append(text, at);
    text = std::move(kept);
  };
  runtime.step(text.size() / 4);
  remove("<!--", "-->");
  remove("<", ">");
  std::string out;
  for (const std::string_view word : split_space(runtime, text, -1, false)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}, {"&#x27;", "'"}, {"&amp;", "&"}};
  for (const auto& [name, meaning] : kEntities) out = replace(runtime, out, name, meaning, -1);
  return runtime.string(std::move(out));
}

Value urlize(Runtime& runtime, const Value& value, Args& args) {
  const Bound bound("urlize", args, {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  std::vector<std::string> rel{"noopener"};
  for (const std::string_view word : split_space(runtime, bound.has(3) ? bound.text(3) : "", -1, false))
    rel.emplace_back(word);
  if (bound.truth(runtime, 1, false)) rel.emplace_back("nofollow");
  std::sort(rel.begin(), rel.end());
  rel.erase(std::unique(rel.begin(), rel.end()), rel.end());
  std::string joined;
  for (const std::string& word : rel) joined += (joined.empty() ? "" : " ") + word;
  std::vector<std::string> schemes;
  if (bound.has(4)) {
    for (const Value& scheme : to_values(runtime, bound[4])) schemes.push_back(str(runtime, scheme));
  }
  const std::string text(text_of(escape(runtime, value)));
  return runtime.string(link_urls(runtime, text, bound.has(0) ? bound.integer(0, 0) : -1, joined,
                                  bound.has(2) ? bound.text(2) : "", schemes));
}

// pprint on one line: keys sorted. What is wider than Python's 80 columns would be laid out over several.
void pretty(Runtime& runtime, std::string& out, const Value& value) {
  const Nested nested(runtime);
  const bool list = value.is(Kind::List), tuple = value.is(Kind::Tuple);
  if (value.is(Kind::Dict)) {
    std::vector<const Entries::value_type*> order;
    for (const auto& entry : value.as<DictObject>().entries) order.push_back(&entry);
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto* a, const auto* b) { return less(runtime, a->first, b->first); });
    out += '{';
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out += ", ";
      pretty(runtime, out, order[i]->first);
      out += ": ";
      pretty(runtime, out, order[i]->second);
    }
    out += '}';
  } else if (list || tuple) {
    const Values& items = value.as<SequenceObject>().items;
    out += list ? '[' : '(';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ", ";
      pretty(runtime, out, items[i]);
    }
    if (tuple && items.size() == 1) out += ',';
    out += list ? ']' : ')';
  } else {
    append_repr(runtime, out, value);
  }
}

Value pprint(Runtime& runtime, const Value& value, Args& args) {
  Bound("pprint", args, {});
  std::string out;
  pretty(runtime, out, value);
  const bool breakable =
      value.is(Kind::Dict) || value.is(Kind::List) || value.is(Kind::Tuple) || value.is(Kind::String);
  if (breakable && count_codes(out) > 80) raise("pprint of values wider than 80 columns is not supported");
  return runtime.string(std::move(out));
}

constexpr Filter kFilters[] = {
    {"e", escape_filter}, {"escape", escape_filter}, {"forceescape", force_escape}, {"pprint", pprint},
    {"safe", safe},       {"striptags", striptags},  {"urlencode", urlencode},      {"urlize", urlize},
    {"xmlattr", xmlattr},
};

}  // namespace

std::span<const Filter> html_filters() { return kFilters; }

}  // namespace cortiq::text::jinja
