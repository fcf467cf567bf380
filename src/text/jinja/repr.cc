#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja/operations.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

void append_hex(std::string& out, char prefix, uint32_t code, int digits) {
  out += '\\';
  out += prefix;
  for (int i = digits; i-- > 0;) out += "0123456789abcdef"[code >> (4 * i) & 0xF];
}

void append_quoted(Runtime& runtime, std::string& out, std::string_view text) {
  runtime.step(text.size() / 16);
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    const char32_t code = now.code;
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (code < 0x7F ? code >= 0x20 : (properties(code) & kPrintable) != 0) {
      out += text.substr(at, now.size);
    } else if (code < 0x100) {
      append_hex(out, 'x', code, 2);
    } else if (code < 0x10000) {
      append_hex(out, 'u', code, 4);
    } else {
      append_hex(out, 'U', code, 8);
    }
    at += now.size;
  }
  out += quote;
}

void append_bytes(std::string& out, const std::string& bytes) {
  const char quote = bytes.find('\'') != bytes.npos && bytes.find('"') == bytes.npos ? '"' : '\'';
  out += 'b';
  out += quote;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      append_hex(out, 'x', byte, 2);
    }
  }
  out += quote;
}

void append_entries(Runtime& runtime, std::string& out, const Entries& entries) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(runtime, out, key);
    out += ": ";
    append_repr(runtime, out, value);
  }
  out += '}';
}

void append_items(Runtime& runtime, std::string& out, const Value& value) {
  const bool list = value.is(Kind::List);
  const Values& items = value.as<SequenceObject>().items;
  out += list ? '[' : '(';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, out, items[i]);
  }
  if (!list && items.size() == 1) out += ',';
  out += list ? ']' : ')';
}

void append_view(Runtime& runtime, std::string& out, const Value& value) {
  const auto part = value.as<ViewObject>().part;
  out += part == ViewObject::Part::Key      ? "dict_keys(["
         : part == ViewObject::Part::Mapped ? "dict_values(["
                                            : "dict_items([";
  Cursor cursor(runtime, value);
  bool first = true;
  for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
    if (!first) out += ", ";
    first = false;
    append_repr(runtime, out, item);
  }
  out += "])";
}

}  // namespace

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  std::string digits;
  const char* at = text;
  const bool negative = *at == '-';
  if (negative) ++at;
  for (; at < end && *at != 'e'; ++at) {
    if (*at != '.') digits += *at;
  }
  const int exponent = std::atoi(std::string(at + 1, static_cast<const char*>(end)).c_str());
  std::string out = negative ? "-" : "";
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

std::string repr_integer(Runtime& runtime, const Value& value) {
  if (!value.is(Kind::BigInt)) return std::to_string(value.small());
  const BigInt& number = value.as<BigIntObject>().value;
  runtime.step(number.bytes() * number.bytes() / 4);
  std::string digits = number.digits(10);
  if (digits.size() > 4300) raise("Exceeds the limit (4300 digits) for integer string conversion");
  return (number.negative() ? "-" : "") + digits;
}

void append_repr(Runtime& runtime, std::string& out, const Value& value) {
  const Nested nested(runtime);
  runtime.grow(out, 64);
  switch (value.kind()) {
    case Kind::Missing:
    case Kind::None:
      out += "None";
      return;
    case Kind::Bool:
      out += value.small() != 0 ? "True" : "False";
      return;
    case Kind::Int:
    case Kind::BigInt:
      out += repr_integer(runtime, value);
      return;
    case Kind::Float:
      out += repr_float(value.real());
      return;
    case Kind::Undefined:
      out += "Undefined";
      return;
    case Kind::String:
      runtime.grow(out, text_of(value).size());
      if (markup(value)) out += "Markup(";
      append_quoted(runtime, out, text_of(value));
      if (markup(value)) out += ')';
      return;
    case Kind::Bytes:
      append_bytes(out, value.as<BytesObject>().bytes);
      return;
    case Kind::List:
    case Kind::Tuple:
      append_items(runtime, out, value);
      return;
    case Kind::Dict:
      append_entries(runtime, out, value.as<DictObject>().entries);
      return;
    case Kind::View:
      append_view(runtime, out, value);
      return;
    case Kind::Range: {
      const RangeObject& range = value.as<RangeObject>();
      out += "range(" + std::to_string(range.start) + ", " + std::to_string(range.stop);
      if (range.step != 1) out += ", " + std::to_string(range.step);
      out += ')';
      return;
    }
    case Kind::Iterator:
      out += std::string("<") + value.as<IteratorObject>().type + " object>";
      return;
    case Kind::Namespace:
      out += "<Namespace ";
      append_entries(runtime, out, value.as<NamespaceObject>().attributes);
      out += '>';
      return;
    case Kind::Callable:
      out += value.as<CallableObject>().repr();
      return;
    case Kind::Activation:
      return;
  }
}

std::string repr(Runtime& runtime, const Value& value) {
  std::string out;
  append_repr(runtime, out, value);
  return out;
}

std::string ascii(Runtime& runtime, const Value& value) {
  const std::string text = repr(runtime, value);
  runtime.heap.demand(5 * text.size());
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(std::string_view(text).substr(at));
    if (now.code < 0x80) {
      out += text[at];
    } else {
      const int digits = now.code < 0x100 ? 2 : now.code < 0x10000 ? 4 : 8;
      append_hex(out, digits == 2 ? 'x' : digits == 4 ? 'u' : 'U', now.code, digits);
    }
    at += now.size;
  }
  return out;
}

std::string str(Runtime& runtime, const Value& value) {
  if (value.is(Kind::String)) return std::string(text_of(value));
  if (value.is(Kind::Undefined)) return {};
  return repr(runtime, value);
}

Value to_string(Runtime& runtime, const Value& value) {
  return value.is(Kind::String) ? value : runtime.string(str(runtime, value));
}

}  // namespace cortiq::text::jinja
