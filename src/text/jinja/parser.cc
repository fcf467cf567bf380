#include "text/jinja/parser.h"

#include <algorithm>

namespace cortiq::text::jinja {

std::string Parser::described(const Token& token) {
  switch (token.type) {
    case Type::Data:
      return "template data / text";
    case Type::VariableBegin:
      return "begin of print statement";
    case Type::VariableEnd:
      return "end of print statement";
    case Type::BlockBegin:
      return "begin of statement block";
    case Type::BlockEnd:
      return "end of statement block";
    case Type::String:
      return "string";
    case Type::Integer:
      return "integer";
    case Type::Float:
      return "float";
    case Type::End:
      return "end of template";
    case Type::Name:
    case Type::Operator:
      break;
  }
  return token.text;
}

Token Parser::take() { return current().type == Type::End ? current() : tokens_[at_++]; }

bool Parser::skip(std::string_view symbol) {
  if (!is(symbol)) return false;
  ++at_;
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  ++at_;
  return true;
}

void Parser::expect(std::string_view symbol) {
  if (!skip(symbol)) fail_here(fmt::format("expected token '{}', got '{}'", symbol, described(current())));
}

void Parser::expect_word(std::string_view word) {
  if (!skip_name(word)) fail_here(fmt::format("expected token '{}', got '{}'", word, described(current())));
}

std::string Parser::expect_name() {
  if (current().type != Type::Name) fail_here(fmt::format("expected token 'name', got '{}'", described(current())));
  return take().text;
}

void Parser::expect(Type type) {
  if (current().type != type) {
    fail_here(fmt::format("expected token '{}', got '{}'", described({type, "", 0, 0}), described(current())));
  }
  ++at_;
}

std::unique_ptr<Statement> Parser::make(Statement::Kind kind) {
  if (++statements_ > 20'000) fail_here("the template is too long");
  auto result = std::make_unique<Statement>();
  result->kind = kind;
  result->line = static_cast<uint32_t>(current().line);
  result->offset = current().offset;
  return result;
}

Ast Parser::run() {
  Ast ast;
  ast.body = statements({});
  ast.constants = constants_;
  return ast;
}

void Parser::unknown_tag(const Token& token, bool end) {
  std::string message = end ? "Unexpected end of template." : fmt::format("Encountered unknown tag '{}'.", token.text);
  if (!ends_.empty()) {
    std::string wanted;
    for (const std::string_view one : ends_.back()) wanted += (wanted.empty() ? "'" : " or '") + std::string(one) + "'";
    message += fmt::format(" Jinja was looking for the following tags: {}.", wanted);
  }
  if (!open_tags_.empty())
    message += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
  lexer_.fail_at(token.offset, message);
}

// Text and tags up to one of `ends`, which becomes the current token.
Statements Parser::statements(std::initializer_list<std::string_view> ends) {
  const Depth depth(*this);
  Statements result;
  std::unique_ptr<Statement> output;
  const auto flush = [&] {
    if (output) result.push_back(std::move(output));
  };
  const auto show = [&](ExpressionPtr node) {
    if (!output) output = make(Statement::Kind::Output);
    output->expressions.push_back(std::move(node));
  };
  if (ends.size() > 0) ends_.emplace_back(ends);
  for (;;) {
    const Token& token = current();
    if (token.type == Type::End) {
      if (ends.size() > 0) unknown_tag(token, true);
      flush();
      return result;
    }
    if (token.type == Type::Data) {
      show(constant(token.text, token));
      ++at_;
    } else if (token.type == Type::VariableBegin) {
      ++at_;
      show(tuple(true));
      expect(Type::VariableEnd);
    } else {
      flush();
      expect(Type::BlockBegin);
      for (const std::string_view end : ends) {
        if (!is_name(end)) continue;
        ends_.pop_back();
        return result;
      }
      result.push_back(statement());
      expect(Type::BlockEnd);
    }
  }
}

// The body of a tag: a colon may stand before the end of the opening tag, as in Python.
Statements Parser::block(std::initializer_list<std::string_view> ends) {
  skip(":");
  expect(Type::BlockEnd);
  return statements(ends);
}

std::unique_ptr<Statement> Parser::statement() {
  if (current().type != Type::Name) fail_here("tag name expected");
  using Parse = std::unique_ptr<Statement> (Parser::*)();
  constexpr std::pair<std::string_view, Parse> kTags[] = {
      {"for", &Parser::parse_for},
      {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call},
      {"filter", &Parser::parse_filter_block},
      {"block", &Parser::parse_block},
      {"print", &Parser::parse_print},
      {"generation", &Parser::parse_generation},
  };
  const Token token = current();
  for (const auto& [name, parse] : kTags) {
    if (token.text != name) continue;
    open_tags_.push_back(token.text);
    auto result = (this->*parse)();
    open_tags_.pop_back();
    return result;
  }
  if (token.text == "break" || token.text == "continue") {
    auto result = make(token.text == "break" ? Statement::Kind::Break : Statement::Kind::Continue);
    ++at_;
    return result;
  }
  for (const std::string_view foreign : {"extends", "include", "import", "from"}) {
    if (token.text == foreign) return parse_foreign(token.text);
  }
  if (token.text == "autoescape") fail_here("the tag 'autoescape' is not supported: prompts are not HTML");
  unknown_tag(token, false);
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto node = make(Statement::Kind::For);
  ++at_;
  const size_t begin = at_;
  node->target = target(false);
  const size_t after = at_;
  expect_word("in");
  node->expressions.push_back(tuple(false));
  if (skip_name("if")) {
    node->test = expression();
    const size_t here = at_;
    at_ = begin;
    node->test_target = target(false);  // once more, for the function that filters
    if (at_ != after) fail_here("invalid target");
    at_ = here;
  }
  node->recursive = skip_name("recursive");
  node->body = block({"endfor", "else"});
  if (skip_name("else")) node->otherwise = block({"endfor"});
  if (is_name("endfor")) drop_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto node = make(Statement::Kind::If);
  ++at_;
  Statement* branch = node.get();
  for (size_t count = 0;; ++count) {
    branch->expressions.push_back(tuple(false));
    branch->body = block({"elif", "else", "endif"});
    if (is_name("elif")) {
      // A long chain nests in the tree, and the tree is walked recursively.
      if (count > 500) fail_here("too many branches");
      auto next = make(Statement::Kind::If);
      ++at_;
      Statement* inner = next.get();
      branch->otherwise.push_back(std::move(next));
      branch = inner;
      continue;
    }
    if (skip_name("else")) branch->otherwise = block({"endif"});
    drop_end();
    return node;
  }
}

std::unique_ptr<Statement> Parser::parse_set() {
  auto node = make(Statement::Kind::Set);
  ++at_;
  node->target = target(true);
  if (skip("=")) {
    node->expressions.push_back(tuple(true));
    return node;
  }
  node->kind = Statement::Kind::SetBlock;
  if (is("|")) node->expressions.push_back(filter(nullptr, false));
  node->body = block({"endset"});
  drop_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto node = make(Statement::Kind::With);
  ++at_;
  while (current().type != Type::BlockEnd) {
    if (!node->parameters.empty()) expect(",");
    node->parameters.push_back(target(false));
    expect("=");
    node->expressions.push_back(expression());
  }
  node->body = block({"endwith"});
  drop_end();
  return node;
}

void Parser::signature(Statement& node) {
  expect("(");
  while (!is(")")) {
    if (!node.parameters.empty()) expect(",");
    ExpressionPtr parameter = name_target();
    for (const ExpressionPtr& other : node.parameters) {
      if (node.parameters.size() > 255) fail_here("too many parameters");
      if (other->text == parameter->text) fail_here(fmt::format("duplicate argument '{}'", parameter->text));
    }
    if (skip("=")) {
      node.defaults.push_back(expression());
    } else if (!node.defaults.empty()) {
      fail_here("non-default argument follows default argument");
    }
    node.parameters.push_back(std::move(parameter));
  }
  expect(")");
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto node = make(Statement::Kind::Macro);
  ++at_;
  node->target = name_target();
  node->name = node->target->text;
  signature(*node);
  node->body = block({"endmacro"});
  drop_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_call() {
  auto node = make(Statement::Kind::CallBlock);
  ++at_;
  if (is("(")) signature(*node);
  node->expressions.push_back(expression());
  if (node->expressions[0]->kind != Expression::Kind::Call) lexer_.fail_at(node->offset, "expected call");
  node->body = block({"endcall"});
  drop_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto node = make(Statement::Kind::FilterBlock);
  ++at_;
  node->expressions.push_back(filter(nullptr, true));
  node->body = block({"endfilter"});
  drop_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_block() {
  auto node = make(Statement::Kind::Block);
  ++at_;
  node->name = expect_name();
  if (is_name("scoped")) fail_here("scoped blocks serve child templates, and a chat template has none");
  if (is_name("required")) fail_here("required blocks need a child template, and a chat template has none");
  node->body = block({"endblock"});
  drop_end();
  skip_name(node->name);
  return node;
}

std::unique_ptr<Statement> Parser::parse_print() {
  auto node = make(Statement::Kind::Output);
  ++at_;
  while (current().type != Type::BlockEnd) {
    if (!node->expressions.empty()) expect(",");
    node->expressions.push_back(expression());
  }
  return node;
}

std::unique_ptr<Statement> Parser::parse_generation() {
  auto node = make(Statement::Kind::Generation);
  ++at_;
  node->body = block({"endgeneration"});
  drop_end();
  return node;
}

// Tags that load other templates: a chat template has none, so they fail if they are reached.
std::unique_ptr<Statement> Parser::parse_foreign(const std::string& tag) {
  auto node = make(Statement::Kind::Refused);
  node->name = tag;
  ++at_;
  node->expressions.push_back(expression());
  if (tag == "import") {
    expect_word("as");
    node->parameters.push_back(name_target());
  } else if (tag == "from") {
    expect_word("import");
    do {
      if (node->parameters.empty() && current().type != Type::Name) expect_name();
      if (current().type != Type::Name || ahead().text == "context") break;
      ExpressionPtr name = name_target();
      node->parameters.push_back(skip_name("as") ? name_target() : std::move(name));
    } while (skip(","));
  } else if (tag == "include" && is_name("ignore")) {
    ++at_;
    expect_word("missing");
  }
  if ((is_name("with") || is_name("without")) && ahead().text == "context") at_ += 2;
  return node;
}

}  // namespace cortiq::text::jinja
