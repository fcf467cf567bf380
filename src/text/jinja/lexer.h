#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::text::jinja {

/// Tokens of a template under Hugging Face's settings (trim_blocks, lstrip_blocks; line statements off).
struct Token {
  enum class Type : unsigned char {
    Data,
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End
  };
  Type type;
  std::string text;  // data, name, unescaped string, digits without '_', or the operator
  size_t line;       // from 1
  size_t offset;     // in the normalized source
};

/// Throws Parse with "what:line:column: …".
class Lexer {
 public:
  Lexer(std::string_view source, std::string_view what);
  std::vector<Token> run();
  [[noreturn]] void fail_at(size_t offset, const std::string& message) const;

 private:
  void root();
  void tag(Token::Type end);
  void comment();
  void raw();
  bool ends_tag(Token::Type end);
  void word();
  void number();
  void quoted();
  void punctuation();
  void put(Token::Type type, std::string text, size_t offset);
  void data(size_t begin, size_t end, char strip_sign, bool variable);
  void skip_space();
  bool at(std::string_view text) const { return std::string_view(source_).substr(at_).starts_with(text); }
  std::string unescape(size_t begin, size_t end) const;

  std::string source_, what_;
  size_t at_ = 0;
  size_t counted_ = 0, line_ = 1;  // line of offset `counted_`
  bool line_starting_ = true;
  std::string open_;  // brackets not closed yet
  std::vector<Token> tokens_;
};

}  // namespace cortiq::text::jinja
