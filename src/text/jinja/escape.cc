#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value escape(Runtime& runtime, const Value& value) {
  if (markup(value)) return value;
  const std::string text = str(runtime, value);
  runtime.step(text.size() / 8);
  runtime.heap.demand(text.size() * 5);
  return runtime.string(escape_html(text), true);
}

}  // namespace cortiq::text::jinja
