#pragma once
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace cortiq::text::jinja {

/// Builds the tree of a template. Throws Parse with line and column.
class Parser {
 public:
  Parser(std::string_view source, std::string_view what) : lexer_(source, what), tokens_(lexer_.run()) {}
  Ast run();
  /// For errors found later in the same source.
  const Lexer& lexer() const { return lexer_; }

 private:
  friend class Depth;
  using Type = Token::Type;

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is(std::string_view symbol) const { return current().type == Type::Operator && current().text == symbol; }
  bool is_name(std::string_view name) const { return current().type == Type::Name && current().text == name; }
  Token take();
  bool skip(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect(std::string_view symbol);
  std::string expect_name();
  void expect_word(std::string_view word);
  void expect(Type type);
  [[noreturn]] void fail_here(const std::string& message) const { lexer_.fail_at(current().offset, message); }
  static std::string described(const Token& token);

  // Statements (parser.cc)
  Statements statements(std::initializer_list<std::string_view> ends);
  Statements block(std::initializer_list<std::string_view> ends);
  void drop_end() { ++at_; }
  std::unique_ptr<Statement> statement();
  std::unique_ptr<Statement> make(Statement::Kind kind);
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_block();
  std::unique_ptr<Statement> parse_print();
  std::unique_ptr<Statement> parse_generation();
  std::unique_ptr<Statement> parse_foreign(const std::string& tag);
  void signature(Statement& statement);
  [[noreturn]] void unknown_tag(const Token& token, bool end);

  // Expressions (parse_expression.cc)
  ExpressionPtr make(Expression::Kind kind, const Token& token);
  ExpressionPtr checked(ExpressionPtr node) const;
  ExpressionPtr add(ExpressionPtr parent, ExpressionPtr child);
  ExpressionPtr constant(Literal value, const Token& token);
  ExpressionPtr target(bool fields);
  void check_target(const Expression& target);
  ExpressionPtr name_target();
  ExpressionPtr tuple(bool condition, bool parentheses = false, bool targets = false, bool fields = false);
  ExpressionPtr expression(bool condition = true);
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool filters);
  ExpressionPtr primary(bool fields = false);
  ExpressionPtr number();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node, bool first);
  ExpressionPtr test(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr node);
  ExpressionPtr list_or_dict();
  std::unique_ptr<CallArguments> arguments(Expression& owner);
  ExpressionPtr binary(Arithmetic operation, ExpressionPtr left, ExpressionPtr right, const Token& token);

  Lexer lexer_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  uint32_t constants_ = 0;
  uint32_t nodes_ = 0, statements_ = 0;
  std::vector<std::string> open_tags_;
  std::vector<std::vector<std::string_view>> ends_;
};

/// One level of nesting in the source.
class Depth {
 public:
  explicit Depth(Parser& parser) : parser_(parser) {
    if (++parser.depth_ > 100) parser.fail_here("nested too deeply");
  }
  ~Depth() { --parser_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Parser& parser_;
};

}  // namespace cortiq::text::jinja
