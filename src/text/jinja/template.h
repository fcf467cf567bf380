#pragma once
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/jinja/ast.h"

namespace cortiq::text::jinja {

/// A parsed template: immutable, to be rendered any number of times from any thread.
class Template {
 public:
  /// Throws Parse with "what:line:column: …".
  Template(std::string_view source, std::string_view what);
  /// Throws Parse: the template's own message if it called raise_exception, else "what:line: …".
  std::string render(const Json& context, const std::optional<std::tm>& now) const;

 private:
  std::string what_;
  Ast ast_;
};

}  // namespace cortiq::text::jinja
