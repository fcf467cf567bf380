#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "text/jinja/parser.h"

namespace cortiq::text::jinja {
namespace {

constexpr uint32_t kMostNodes = 60'000;  // the tree of the longest template known has a tenth of it
constexpr size_t kMostKeywords = 255;
constexpr uint32_t kDeepest = 300;  // a chain a + b + c … nests to the left, and the tree is walked recursively

}  // namespace

ExpressionPtr Parser::make(Expression::Kind kind, const Token& token) {
  if (++nodes_ > kMostNodes) lexer_.fail_at(token.offset, "the template is too long");
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = static_cast<uint32_t>(token.line);
  node->offset = token.offset;
  return node;
}

ExpressionPtr Parser::checked(ExpressionPtr node) const {
  if (node->depth > kDeepest) lexer_.fail_at(node->offset, "expression nested too deeply");
  return node;
}

ExpressionPtr Parser::add(ExpressionPtr parent, ExpressionPtr child) {
  if (child) parent->depth = std::max(parent->depth, child->depth + 1);
  parent->items.push_back(std::move(child));
  return checked(std::move(parent));
}

ExpressionPtr Parser::constant(Literal value, const Token& token) {
  auto node = make(Expression::Kind::Constant, token);
  node->literal = std::move(value);
  node->constant_index = constants_++;
  return node;
}

ExpressionPtr Parser::name_target() {
  const Token token = current();
  auto node = make(Expression::Kind::Name, token);
  node->text = expect_name();
  check_target(*node);
  return node;
}

void Parser::check_target(const Expression& node) {
  if (node.kind == Expression::Kind::Tuple) {
    for (const ExpressionPtr& item : node.items) check_target(*item);
    return;
  }
  if (node.kind == Expression::Kind::Field) return;
  const bool reserved = node.text == "true" || node.text == "false" || node.text == "none" || node.text == "True" ||
                        node.text == "False" || node.text == "None";
  if (node.kind != Expression::Kind::Name || reserved) lexer_.fail_at(node.offset, "can't assign to this");
}

ExpressionPtr Parser::target(bool fields) {
  ExpressionPtr node = tuple(true, false, true, fields);
  check_target(*node);
  return node;
}

// One expression, or several with commas between them. `targets`: only names and literals, as in assignments.
ExpressionPtr Parser::tuple(bool condition, bool parentheses, bool targets, bool fields) {
  const Depth depth(*this);
  const Token first = current();
  auto node = make(Expression::Kind::Tuple, first);
  bool several = false;
  for (;;) {
    if (!node->items.empty()) expect(",");
    const bool ended = current().type == Type::VariableEnd || current().type == Type::BlockEnd || is(")");
    if (ended) break;
    node = add(std::move(node), targets ? primary(fields) : expression(condition));
    if (!is(",")) break;
    several = true;
  }
  if (several) return node;
  if (!node->items.empty()) return std::move(node->items[0]);
  if (!parentheses) fail_here(fmt::format("Expected an expression, got '{}'", described(current())));
  return node;
}

ExpressionPtr Parser::expression(bool condition) {
  const Depth depth(*this);
  const Token token = current();
  ExpressionPtr node = disjunction();
  while (condition && skip_name("if")) {
    auto choice = add(make(Expression::Kind::Condition, token), std::move(node));
    choice = add(std::move(choice), disjunction());
    node = add(std::move(choice), skip_name("else") ? expression() : nullptr);
  }
  return node;
}

ExpressionPtr Parser::disjunction() {
  ExpressionPtr left = conjunction();
  while (is_name("or")) {
    const Token token = take();
    left = add(add(make(Expression::Kind::Or, token), std::move(left)), conjunction());
  }
  return left;
}

ExpressionPtr Parser::conjunction() {
  ExpressionPtr left = negation();
  while (is_name("and")) {
    const Token token = take();
    left = add(add(make(Expression::Kind::And, token), std::move(left)), negation());
  }
  return left;
}

ExpressionPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Depth depth(*this);
  const Token token = take();
  return add(make(Expression::Kind::Not, token), negation());
}

ExpressionPtr Parser::comparison() {
  constexpr std::pair<std::string_view, Relation> kRelations[] = {
      {"==", Relation::Equal},     {"!=", Relation::NotEqual}, {"<", Relation::Less},
      {"<=", Relation::LessEqual}, {">", Relation::Greater},   {">=", Relation::GreaterEqual}};
  const Token token = current();
  ExpressionPtr left = sum();
  ExpressionPtr node;
  for (;;) {
    std::optional<Relation> relation;
    if (current().type == Type::Operator) {
      for (const auto& [symbol, meaning] : kRelations) {
        if (current().text == symbol) relation = meaning;
      }
      if (relation) ++at_;
    } else if (skip_name("in")) {
      relation = Relation::In;
    } else if (is_name("not") && ahead().type == Type::Name && ahead().text == "in") {
      at_ += 2;
      relation = Relation::NotIn;
    }
    if (!relation) return node ? std::move(node) : std::move(left);
    if (!node) node = add(make(Expression::Kind::Compare, token), std::move(left));
    node->relations.push_back(*relation);
    node = add(std::move(node), sum());
  }
}

ExpressionPtr Parser::binary(Arithmetic operation, ExpressionPtr left, ExpressionPtr right, const Token& token) {
  auto node = make(Expression::Kind::Binary, token);
  node->operation = operation;
  return add(add(std::move(node), std::move(left)), std::move(right));
}

ExpressionPtr Parser::sum() {
  ExpressionPtr left = concatenation();
  while (is("+") || is("-")) {
    const Token token = take();
    left = binary(token.text == "+" ? Arithmetic::Add : Arithmetic::Subtract, std::move(left), concatenation(), token);
  }
  return left;
}

ExpressionPtr Parser::concatenation() {
  const Token token = current();
  ExpressionPtr left = product();
  if (!is("~")) return left;
  auto node = add(make(Expression::Kind::Concat, token), std::move(left));
  while (skip("~")) node = add(std::move(node), product());
  return node;
}

ExpressionPtr Parser::product() {
  ExpressionPtr left = power();
  while (is("*") || is("/") || is("//") || is("%")) {
    const Token token = take();
    const Arithmetic operation = token.text == "*"    ? Arithmetic::Multiply
                                 : token.text == "/"  ? Arithmetic::Divide
                                 : token.text == "//" ? Arithmetic::FloorDivide
                                                      : Arithmetic::Modulo;
    left = binary(operation, std::move(left), power(), token);
  }
  return left;
}

ExpressionPtr Parser::power() {
  ExpressionPtr left = unary(true);
  while (is("**")) {
    const Token token = take();
    left = binary(Arithmetic::Power, std::move(left), unary(true), token);
  }
  return left;
}

ExpressionPtr Parser::unary(bool filters) {
  const Depth depth(*this);
  ExpressionPtr node;
  if (is("-") || is("+")) {
    const Token token = take();
    node = add(make(token.text == "-" ? Expression::Kind::Negative : Expression::Kind::Positive, token), unary(false));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary(bool fields) {
  const Token token = current();
  switch (token.type) {
    case Type::Name: {
      ++at_;
      if (token.text == "true" || token.text == "True") return constant(true, token);
      if (token.text == "false" || token.text == "False") return constant(false, token);
      if (token.text == "none" || token.text == "None") return constant(std::monostate(), token);
      auto node = make(Expression::Kind::Name, token);
      node->text = token.text;
      if (fields && skip(".")) {
        node->kind = Expression::Kind::Field;
        node->field = expect_name();
      }
      return node;
    }
    case Type::String: {
      std::string text;
      while (current().type == Type::String) text += take().text;
      return constant(std::move(text), token);
    }
    case Type::Integer:
    case Type::Float:
      return number();
    case Type::Operator:
      if (token.text == "(") {
        ++at_;
        ExpressionPtr node = tuple(true, true);
        expect(")");
        return node;
      }
      if (token.text == "[" || token.text == "{") return list_or_dict();
      break;
    default:
      break;
  }
  fail_here(fmt::format("unexpected '{}'", described(token)));
}

ExpressionPtr Parser::number() {
  const Token token = take();
  if (token.type == Type::Float) {
    double value = 0;
    const auto end = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (end.ec == std::errc::result_out_of_range) value = std::strtod(token.text.c_str(), nullptr);
    return constant(value, token);
  }
  const bool prefixed = token.text.size() > 2 && token.text[1] > '9';
  const unsigned base = !prefixed ? 10 : token.text[1] == 'x' ? 16 : token.text[1] == 'o' ? 8 : 2;
  if (token.text.size() > 4300) lexer_.fail_at(token.offset, "integer with more than 4300 digits");
  BigInt value = BigInt::parse(std::string_view(token.text).substr(prefixed ? 2 : 0), base);
  if (const auto small = value.small()) return constant(*small, token);
  return constant(std::move(value), token);
}

ExpressionPtr Parser::list_or_dict() {
  const Token token = take();
  const bool dict = token.text == "{";
  const std::string_view end = dict ? "}" : "]";
  auto node = make(dict ? Expression::Kind::Dict : Expression::Kind::List, token);
  while (!is(end)) {
    if (!node->items.empty()) expect(",");
    if (is(end)) break;
    node = add(std::move(node), expression());
    if (dict) {
      expect(":");
      node = add(std::move(node), expression());
    }
  }
  expect(end);
  return node;
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
  for (;;) {
    if (is(".") || is("[")) {
      node = subscript(std::move(node));
    } else if (is("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr node) {
  for (;;) {
    if (is("|")) {
      node = filter(std::move(node), false);
    } else if (is_name("is")) {
      node = test(std::move(node));
    } else if (is("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr object) {
  const Token token = take();
  if (token.text == ".") {
    const Token member = take();
    if (member.type == Type::Name) {
      auto node = make(Expression::Kind::Attribute, token);
      node->text = member.text;
      return add(std::move(node), std::move(object));
    }
    if (member.type != Type::Integer) lexer_.fail_at(member.offset, "expected name or number");
    --at_;
    return add(add(make(Expression::Kind::Item, token), std::move(object)), number());
  }
  std::vector<ExpressionPtr> keys;
  while (!is("]")) {
    if (!keys.empty()) expect(",");
    ExpressionPtr start;
    if (!is(":")) start = expression();
    if (!is(":")) {
      keys.push_back(std::move(start));
      continue;
    }
    if (!keys.empty()) fail_here("a slice inside a tuple is no valid index");
    ++at_;
    auto node = add(add(make(Expression::Kind::Slice, token), std::move(object)), std::move(start));
    const auto part = [&] { return is(":") || is("]") || is(",") ? nullptr : expression(); };
    node = add(std::move(node), part());
    node = add(std::move(node), skip(":") ? part() : nullptr);
    expect("]");
    return node;
  }
  expect("]");
  ExpressionPtr key;
  if (keys.size() == 1) {
    key = std::move(keys[0]);
  } else {
    key = make(Expression::Kind::Tuple, token);
    for (ExpressionPtr& one : keys) key = add(std::move(key), std::move(one));
  }
  return add(add(make(Expression::Kind::Item, token), std::move(object)), std::move(key));
}

std::unique_ptr<CallArguments> Parser::arguments(Expression& owner) {
  const Depth depth(*this);
  const Token token = current();
  expect("(");
  auto result = std::make_unique<CallArguments>();
  const auto ensure = [&](bool good) {
    if (!good) lexer_.fail_at(token.offset, "invalid syntax for function call expression");
  };
  const auto value = [&] {
    ExpressionPtr node = expression();
    owner.depth = std::max(owner.depth, node->depth + 1);
    return node;
  };
  for (bool first = true; !is(")"); first = false) {
    if (!first) {
      expect(",");
      if (is(")")) break;
    }
    if (skip("*")) {
      ensure(!result->star && !result->double_star);
      result->star = value();
    } else if (skip("**")) {
      ensure(!result->double_star);
      result->double_star = value();
    } else if (current().type == Type::Name && ahead().type == Type::Operator && ahead().text == "=") {
      ensure(!result->double_star);
      std::string key = take().text;
      ++at_;
      for (const auto& other : result->keywords) ensure(other.first != key);
      result->keywords.emplace_back(std::move(key), value());
      if (result->keywords.size() > kMostKeywords) fail_here("too many arguments");
    } else {
      ensure(!result->star && !result->double_star && result->keywords.empty());
      result->positional.push_back(value());
    }
  }
  expect(")");
  return result;
}

ExpressionPtr Parser::call(ExpressionPtr callee) {
  const Token token = current();
  auto node = add(make(Expression::Kind::Call, token), std::move(callee));
  node->arguments = arguments(*node);
  return checked(std::move(node));
}

// `first`: the name of a filter block, without the bar; its value is the block's text.
ExpressionPtr Parser::filter(ExpressionPtr node, bool first) {
  while (first || is("|")) {
    if (!first) ++at_;
    first = false;
    const Token token = current();
    auto outer = add(make(Expression::Kind::Filter, token), std::move(node));
    outer->text = expect_name();
    while (skip(".")) outer->text += "." + expect_name();
    outer->arguments = is("(") ? arguments(*outer) : std::make_unique<CallArguments>();
    node = checked(std::move(outer));
  }
  return node;
}

ExpressionPtr Parser::test(ExpressionPtr value) {
  const Token token = take();
  const bool negated = skip_name("not");
  auto node = add(make(Expression::Kind::Test, token), std::move(value));
  node->text = expect_name();
  while (skip(".")) node->text += "." + expect_name();
  node->arguments = std::make_unique<CallArguments>();
  const bool operand = current().type == Type::String || current().type == Type::Integer ||
                       current().type == Type::Float || is("[") || is("{") ||
                       (current().type == Type::Name && !is_name("else") && !is_name("or") && !is_name("and"));
  if (is("(")) {
    node->arguments = arguments(*node);
  } else if (operand) {
    if (is_name("is")) fail_here("You cannot chain multiple tests with is");
    node->arguments->positional.push_back(postfix(primary()));
    node->depth = std::max(node->depth, node->arguments->positional[0]->depth + 1);
  }
  node = checked(std::move(node));
  if (!negated) return node;
  return add(make(Expression::Kind::Not, token), std::move(node));
}

}  // namespace cortiq::text::jinja
