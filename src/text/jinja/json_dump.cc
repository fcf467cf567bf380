#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

void append_unit(std::string& out, uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[unit >> shift & 0xF];
}

// json.dumps: the value as Python's encoder writes it.
class Dumper {
 public:
  Dumper(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, size_t level) {
    const Nested nested(runtime_);
    runtime_.grow(out_, 32);
    switch (value.kind()) {
      case Kind::None:
        out_ += "null";
        return;
      case Kind::Bool:
        out_ += value.small() != 0 ? "true" : "false";
        return;
      case Kind::Int:
      case Kind::BigInt:
        out_ += repr_integer(runtime_, value);
        return;
      case Kind::Float:
        out_ += real(value.real());
        return;
      case Kind::String:
        quote(text_of(value));
        return;
      case Kind::List:
      case Kind::Tuple:
        list(value.as<SequenceObject>().items, level);
        return;
      case Kind::Dict:
        object(value.as<DictObject>().entries, level);
        return;
      default:
        raise("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return repr_float(value);
  }

  void line(size_t level) {
    if (!style_.pretty) return;
    runtime_.grow(out_, 1 + level * style_.indent.size());
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += style_.indent;
  }

  void list(const Values& items, size_t level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) runtime_.append(out_, style_.item_separator);
      line(level + 1);
      write(items[i], level + 1);
    }
    line(level);
    out_ += ']';
  }

  void object(const Entries& entries, size_t level) {
    if (entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Entries::value_type*> order;
    runtime_.heap.demand(entries.size() * sizeof(void*));
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return less(runtime_, a->first, b->first); });
    }
    out_ += '{';
    bool first = true;
    for (const auto* entry : order) {
      if (!first) runtime_.append(out_, style_.item_separator);
      first = false;
      line(level + 1);
      key(entry->first);
      runtime_.append(out_, style_.key_separator);
      write(entry->second, level + 1);
    }
    line(level);
    out_ += '}';
  }

  void key(const Value& value) {
    switch (value.kind()) {
      case Kind::String:
        return quote(text_of(value));
      case Kind::None:
        return quote("null");
      case Kind::Bool:
        return quote(value.small() != 0 ? "true" : "false");
      case Kind::Int:
      case Kind::BigInt:
        return quote(repr_integer(runtime_, value));
      case Kind::Float:
        return quote(real(value.real()));
      default:
        raise("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
  }

  void quote(std::string_view text) {
    runtime_.grow(out_, text.size() + 2);
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x80) {
        const Decoded now = decode_utf8(text.substr(at));
        if (!style_.ascii) {
          out_ += text.substr(at, now.size);
        } else if (now.code < 0x10000) {
          append_unit(out_, now.code);
        } else {
          append_unit(out_, 0xD800 + ((now.code - 0x10000) >> 10));
          append_unit(out_, 0xDC00 + (now.code & 0x3FF));
        }
        at += now.size;
        continue;
      }
      ++at;
      constexpr std::string_view kShort = "\b\t\n\f\r\"\\", kLetters = "btnfr\"\\";
      if (const size_t known = kShort.find(static_cast<char>(byte)); known != kShort.npos) {
        out_ += '\\';
        out_ += kLetters[known];
      } else if (byte < 0x20) {
        append_unit(out_, byte);
      } else {
        out_ += static_cast<char>(byte);
      }
    }
    out_ += '"';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  return Dumper(runtime, style).run(value);
}

}  // namespace cortiq::text::jinja
