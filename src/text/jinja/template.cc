#include "text/jinja/template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/functions.h"
#include "text/jinja/parser.h"
#include "text/jinja/scopes.h"
#include "text/jinja/walk.h"

namespace cortiq::text::jinja {
namespace {

/// Unknown filters and tests are errors of the template, except directly inside a condition, where jinja2 leaves it to
/// the rendering: {% if false %}{{ x | unknown }}{% endif %} is fine.
class NameCheck {
 public:
  explicit NameCheck(const Lexer& lexer) : lexer_(lexer) {}

  void check(const Statements& statements, bool conditional) {
    for (const auto& statement : statements) check(*statement, conditional);
  }

 private:
  void check(const Statement& node, bool conditional) {
    using Tag = Statement::Kind;
    const bool branch = node.kind == Tag::If;
    const bool captured = node.kind == Tag::FilterBlock || node.kind == Tag::SetBlock;
    for (const auto& expression : node.expressions) check(*expression, branch || (conditional && !captured));
    for (const auto& value : node.defaults) check(*value, false);
    if (node.test) check(*node.test, false);
    check(node.body, branch);
    check(node.otherwise, branch);
  }

  void check(const Expression& node, bool conditional) {
    if (!conditional && node.kind == Expression::Kind::Filter && find_filter(node.text) == nullptr) {
      lexer_.fail_at(node.offset, fmt::format("No filter named '{}'.", node.text));
    }
    if (!conditional && node.kind == Expression::Kind::Test && find_test(node.text) == nullptr) {
      lexer_.fail_at(node.offset, fmt::format("No test named '{}'.", node.text));
    }
    const bool inner = conditional || node.kind == Expression::Kind::Condition;
    for_each_child(node, [&](const Expression& child) { check(child, inner); });
  }

  const Lexer& lexer_;
};

}  // namespace

Template::Template(std::string_view source, std::string_view what) : what_(what) {
  Parser parser(source, what);
  ast_ = parser.run();
  NameCheck(parser.lexer()).check(ast_.body, false);
  resolve_scopes(ast_, parser.lexer());
}

std::string Template::render(const Json& context, const std::optional<std::tm>& now) const {
  if (!context.is_object()) fail(ErrorKind::Parse, "{}: the variables of a template must be a JSON object", what_);
  std::optional<Evaluator> evaluator;
  try {
    evaluator.emplace(ast_, context, now);
    return evaluator->run();
  } catch (const Failure& failure) {
    if (failure.own) throw Error(ErrorKind::Parse, failure.message);
    fail(ErrorKind::Parse, "{}:{}: {}", what_, evaluator ? evaluator->line() : 1, failure.message);
  }
}

}  // namespace cortiq::text::jinja
