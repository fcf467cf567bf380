#include <algorithm>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/strings.h"

namespace cortiq::text::jinja {
namespace {

// text % value, one directive after the other.
class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, std::string_view format, const Value& value, bool as_markup)
      : runtime_(runtime), format_(format), value_(value), markup_(as_markup) {}

  std::string run() {
    while (at_ < format_.size()) {
      const size_t sign = std::min(format_.find('%', at_), format_.size());
      runtime_.append(out_, format_.substr(at_, sign - at_));
      at_ = sign;
      if (at_ < format_.size()) directive();
    }
    const bool mapping =
        value_.is(Kind::Dict) || value_.is(Kind::List) || value_.is(Kind::Undefined) || value_.is(Kind::Range);
    const size_t count = value_.is(Kind::Tuple) ? value_.as<SequenceObject>().items.size() : 1;
    if (!mapping && used_ < count) raise("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char take() {
    if (at_ >= format_.size()) raise("incomplete format");
    return format_[at_++];
  }

  Value argument() {
    if (!key_.missing()) return key_;
    const size_t index = used_++;
    if (value_.is(Kind::Tuple)) {
      const Values& items = value_.as<SequenceObject>().items;
      if (index < items.size()) return items[index];
    } else if (index == 0) {
      return value_;
    }
    raise("not enough arguments for format string");
  }

  int64_t star_or_number(int64_t most, const char* what) {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const Value value = argument();
      if (!value.is(Kind::Int) && !value.is(Kind::Bool)) raise("* wants int");
      if (value.small() > most || value.small() < -most) raise("format {} too large (the limit is {})", what, most);
      return value.small();
    }
    return format_number(format_, at_, most, what);
  }

  void directive() {
    ++at_;
    key_ = Value();
    if (at_ < format_.size() && format_[at_] == '(') mapping_key();
    Spec spec;
    bool zero = false;
    for (; at_ < format_.size(); ++at_) {
      const char c = format_[at_];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        zero = true;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = star_or_number(kWidest, "width");
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(star_or_number(kMostPrecise, "precision"), 0);
    }
    while (at_ < format_.size() && (format_[at_] == 'h' || format_[at_] == 'l' || format_[at_] == 'L')) ++at_;
    spec.type = take();
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    convert(spec, zero);
  }

  void mapping_key() {
    size_t depth = 1;
    const size_t begin = ++at_;
    for (; depth > 0; ++at_) {
      if (at_ >= format_.size()) raise("incomplete format key");
      depth += format_[at_] == '(' ? 1 : format_[at_] == ')' ? size_t(-1) : 0;
    }
    if (!value_.is(Kind::Dict)) raise("format requires a mapping");
    const std::string name(format_.substr(begin, at_ - 1 - begin));
    key_ = lookup(runtime_, value_.as<DictObject>(), runtime_.string(name));
    if (key_.missing()) raise("'{}'", name);
    used_ = 1;
  }

  void convert(Spec spec, bool zero) {
    const Value value = argument();
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = spec.type == 's'   ? str(runtime_, value)
                           : spec.type == 'r' ? repr(runtime_, value)
                                              : ascii(runtime_, value);
        if (markup_ && !markup(value)) text = escape_html(text);
        if (spec.align == 0) spec.align = '>';
        runtime_.append(out_, format_text(runtime_, spec, text));
        return;
      }
      case 'c': {
        if (value.is(Kind::String)) {
          if (length(runtime_, value) != 1) raise("%c requires int or char");
          if (spec.align == 0) spec.align = '>';
          spec.precision = -1;
          runtime_.append(out_, format_text(runtime_, spec, text_of(value)));
          return;
        }
        if (!value.is_integer()) raise("%c requires int or char");
        if (spec.align == 0) spec.align = '>';
        spec.precision = -1;
        runtime_.append(out_, format_integer(runtime_, spec, value));
        return;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        integer(spec, zero, value);
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        fill_with_zeros(spec, zero);
        if (!value.is_number()) undefined_or(value, "must be real number, not {}");
        runtime_.append(out_, format_real(runtime_, spec, value, to_real(value)));
        return;
      default:
        raise("unsupported format character '{}' ({:#x}) at index {}", spec.type, static_cast<unsigned char>(spec.type),
              at_ - 1);
    }
  }

  [[noreturn]] void undefined_or(const Value& value, fmt::format_string<const char*> message) {
    if (value.is(Kind::Undefined)) raise("{}", value.as<UndefinedObject>().message);
    raise(message, type_name(value));
  }

  void fill_with_zeros(Spec& spec, bool zero) {
    if (!zero || spec.align == '<') return;
    spec.fill = "0";
    spec.align = '=';
  }

  void integer(Spec spec, bool zero, const Value& value) {
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (value.is(Kind::Float) && !decimal) raise("%{} format: an integer is required, not float", spec.type);
    if (!value.is_number()) undefined_or(value, "%d format: a real number is required, not {}");
    if (value.is(Kind::Float) && !std::isfinite(value.real()))
      raise("cannot convert float {} to integer", repr_float(value.real()));
    if (decimal) spec.type = 'd';
    fill_with_zeros(spec, zero);
    const Value whole = value.is(Kind::Float) ? runtime_.integer(BigInt::truncate(value.real())) : value;
    const int64_t digits = spec.precision;
    spec.precision = -1;
    if (digits < 0) {
      runtime_.append(out_, format_integer(runtime_, spec, whole));
      return;
    }
    // The precision is the least number of digits.
    Spec bare;
    bare.type = spec.type;
    BigInt magnitude = big(whole);
    const bool negative = magnitude.negative();
    if (negative) magnitude = -magnitude;
    const std::string text =
        pad(runtime_, format_integer(runtime_, bare, runtime_.integer(std::move(magnitude))), digits, "0", -1);
    const std::string prefix = spec.alternate && !decimal ? std::string("0") + spec.type : "";
    runtime_.append(out_, place_number(runtime_, spec, negative, prefix, text));
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& value_;
  bool markup_;
  size_t at_ = 0;
  size_t used_ = 0;
  Value key_;
  std::string out_;
};

// text.format(…): replacement fields with automatic numbering, attributes, indices, conversions, nested specs.
class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Args& args, bool as_markup)
      : runtime_(runtime), args_(args), markup_(as_markup) {}

  std::string run(std::string_view text, int depth) {
    if (depth < 0) raise("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      runtime_.append(out, text.substr(at, brace - at));
      at = brace;
      if (at == text.size()) break;
      if (at + 1 < text.size() && text[at + 1] == text[at]) {
        out += text[at];
        at += 2;
        continue;
      }
      if (text[at] == '}') raise("Single '}}' encountered in format string");
      const size_t begin = ++at;
      size_t nesting = 1;
      for (; at < text.size() && nesting > 0; ++at) nesting += text[at] == '{' ? 1 : text[at] == '}' ? size_t(-1) : 0;
      if (nesting > 0 && begin == text.size()) raise("Single '{{' encountered in format string");
      if (nesting > 0) raise("expected '}}' before end of string");
      runtime_.append(out, field(text.substr(begin, at - 1 - begin), depth));
    }
    return out;
  }

 private:
  std::string field(std::string_view text, int depth) {
    size_t end = 0;
    for (bool bracket = false; end < text.size(); ++end) {
      if (text[end] == '[') bracket = true;
      if (text[end] == ']') bracket = false;
      if (!bracket && (text[end] == '!' || text[end] == ':')) break;
    }
    const std::string_view name = text.substr(0, end);
    char conversion = 0;
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size()) raise("end of string while looking for conversion specifier");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') raise("expected ':' after conversion specifier");
    }
    Value value = find(name);
    const std::string spec = end < text.size() ? run(text.substr(end + 1), depth - 1) : std::string();
    if (conversion == 'r' || conversion == 'a') {
      value = runtime_.string(conversion == 'r' ? repr(runtime_, value) : ascii(runtime_, value));
    } else if (conversion == 's') {
      value = to_string(runtime_, value);
    } else if (conversion != 0) {
      raise("Unknown conversion specifier {}", conversion);
    }
    std::string shown = format_spec(runtime_, value, spec);
    return markup_ && !markup(value) ? escape_html(shown) : shown;
  }

  Value find(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    for (size_t at = end; at < name.size();) {
      if (name[at] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", at + 1), name.size());
        if (stop == at + 1) raise("Empty attribute in format string");
        value = get_attribute(runtime_, value, name.substr(at + 1, stop - at - 1));
        at = stop;
      } else if (name[at] == '[') {
        const size_t stop = name.find(']', at);
        if (stop == name.npos) raise("Missing ']' in format string");
        value = get_item(runtime_, value, index(name.substr(at + 1, stop - at - 1)));
        at = stop + 1;
      } else {
        raise("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value index(std::string_view text) {
    if (text.empty()) raise("Empty attribute in format string");
    if (text.find_first_not_of("0123456789") != text.npos || text.size() > 18)
      return runtime_.string(std::string(text));
    return Value::integer(std::stoll(std::string(text)));
  }

  Value first(std::string_view name) {
    if (!name.empty() && name.find_first_not_of("0123456789") != name.npos) {
      for (const auto& [key, value] : args_.keywords) {
        if (key == name) return value;
      }
      raise("'{}'", name);
    }
    if (name.empty() ? numbered_ > 0 : automatic_ > 0) {
      raise("cannot switch from manual field specification to automatic field numbering");
    }
    const size_t position =
        name.empty() ? automatic_++ : (numbered_ = 1, name.size() > 9 ? SIZE_MAX : std::stoul(std::string(name)));
    if (position >= args_.positional.size())
      raise("Replacement index {} out of range for positional args tuple", position);
    return args_.positional[position];
  }

  Runtime& runtime_;
  const Args& args_;
  bool markup_;
  size_t automatic_ = 0, numbered_ = 0;
};

}  // namespace

std::string format_percent(Runtime& runtime, std::string_view format, const Value& value, bool as_markup) {
  return PercentFormat(runtime, format, value, as_markup).run();
}

std::string format_braces(Runtime& runtime, std::string_view format, const Args& args, bool as_markup) {
  return BraceFormat(runtime, args, as_markup).run(format, 2);
}

}  // namespace cortiq::text::jinja
