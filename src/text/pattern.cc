#include "text/pattern.h"

#include "base/error.h"

namespace cortiq::text {

Pattern Pattern::regex(std::string_view pattern, std::string_view where) {
  Pattern out;
  out.regex_ = std::make_shared<const Regex>(pattern, where);
  return out;
}

Pattern::Pattern(const Fields& fields, const char* name) {
  const Fields inner(fields.at(name), fields.path_of(name));
  if (inner.has("String")) {
    literal_ = inner.text("String");
    // An empty text matches between all characters, as the empty expression does.
    if (literal_.empty()) *this = regex("", inner.path());
  } else if (inner.has("Regex")) {
    *this = regex(inner.text("Regex"), inner.path());
  } else {
    fail(ErrorKind::Unsupported, "{}: a pattern is {{\"String\": …}} or {{\"Regex\": …}}", inner.path());
  }
}

}  // namespace cortiq::text
