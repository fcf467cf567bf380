#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace cortiq::text::jinja {

// The operations of Python's values. All fail with Python's words where Python does.

const char* type_name(const Value& value);
std::string_view text_of(const Value& string);  // must be a String
bool markup(const Value& value);

bool truth(Runtime& runtime, const Value& value);
/// len(), or -1 where there is none.
int64_t length(Runtime& runtime, const Value& value);
bool equal(Runtime& runtime, const Value& a, const Value& b);
bool identical(const Value& a, const Value& b);
size_t hash(Runtime& runtime, const Value& value);
/// a < b
bool less(Runtime& runtime, const Value& a, const Value& b);
enum class Relation : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };
bool compare(Runtime& runtime, Relation relation, const Value& a, const Value& b);
bool contains(Runtime& runtime, const Value& container, const Value& item);

enum class Arithmetic : uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
Value arithmetic(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b);
Value negate(Runtime& runtime, const Value& value);
Value plus(Runtime& runtime, const Value& value);
BigInt big(const Value& integer);
double to_real(const Value& number);
/// The floor quotient and remainder of floats.
double floor_divide(double a, double b);
double modulo(double a, double b);
/// round(value, digits)
double round_half_even(double value, int digits);

/// str() and repr().
Value to_string(Runtime& runtime, const Value& value);
std::string str(Runtime& runtime, const Value& value);
std::string repr(Runtime& runtime, const Value& value);
void append_repr(Runtime& runtime, std::string& out, const Value& value);
/// ascii(): repr() with \x, \u and \U for what is not ASCII.
std::string ascii(Runtime& runtime, const Value& value);
std::string repr_float(double value);
std::string repr_integer(Runtime& runtime, const Value& value);

/// obj[key] of plain Python, or a missing value where it raises TypeError or LookupError.
Value subscript(Runtime& runtime, const Value& object, const Value& key);
/// The value of a key in a dict, or a missing value.
Value lookup(Runtime& runtime, const DictObject& dict, const Value& key);
Value slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);

/// jinja's object.name and object[key] in the immutable sandbox.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// A method or attribute of a built-in type bound to `object`, or a missing value (methods.cc).
Value builtin_attribute(Runtime& runtime, const Value& object, std::string_view name);

Value call(Runtime& runtime, const Value& callable, Args& args);

/// HTML escaping (markupsafe.escape): the result is markup.
std::string escape_html(std::string_view text);
Value escape(Runtime& runtime, const Value& value);

/// text % value, and text.format(…) in the sandbox.
std::string format_percent(Runtime& runtime, std::string_view format, const Value& value, bool as_markup);
std::string format_braces(Runtime& runtime, std::string_view format, const Args& args, bool as_markup);
std::string format_spec(Runtime& runtime, const Value& value, std::string_view spec);

/// json.dumps in Hugging Face's dialect.
struct JsonStyle {
  bool ascii = false;
  bool pretty = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace cortiq::text::jinja
