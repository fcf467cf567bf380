#include "text/regex_tree.h"

#include "text/unicode.h"

namespace cortiq::text {
namespace {

using Kind = RegexTree::Kind;
using Test = RegexTree::Test;
using Node = RegexTree::Node;

constexpr int kMaxDepth = 40;
constexpr size_t kMaxPattern = 8192;
constexpr uint32_t kMaxRepeat = 1000;

// Thrown inside this file only: the pattern is not in the subset.
struct Outside {};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  RegexTree parse() {
    const bool fold = take("(?i)");
    tree_.root = alternatives(fold, 0);
    if (at_ != pattern_.size()) throw Outside{};
    return std::move(tree_);
  }

 private:
  bool more() const { return at_ < pattern_.size(); }
  char peek() const { return more() ? pattern_[at_] : '\0'; }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }

  uint32_t add(Node node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }
  uint32_t add_set(CodeSet set) {
    tree_.sets.push_back(std::move(set));
    Node node;
    node.kind = Kind::Set;
    node.set = static_cast<uint32_t>(tree_.sets.size() - 1);
    return add(std::move(node));
  }
  uint32_t add_test(Test test, uint32_t set = 0) {
    Node node;
    node.kind = Kind::Assert;
    node.test = test;
    node.set = set;
    return add(std::move(node));
  }

  uint32_t alternatives(bool fold, int depth) {
    if (depth > kMaxDepth) throw Outside{};
    Node node;
    node.kind = Kind::Alternate;
    do {
      node.children.push_back(sequence(fold, depth));
    } while (take("|"));
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  uint32_t sequence(bool fold, int depth) {
    Node node;
    node.kind = Kind::Concat;
    while (more() && peek() != '|' && peek() != ')') node.children.push_back(repeated(fold, depth));
    if (node.children.size() == 1) return node.children[0];
    if (node.children.empty()) node.kind = Kind::Empty;
    return add(std::move(node));
  }

  uint32_t repeated(bool fold, int depth) {
    const uint32_t child = atom(fold, depth);
    Node node;
    node.kind = Kind::Repeat;
    node.children = {child};
    const bool interval = peek() == '{';
    if (!quantifier(node)) return child;
    // {n}? and {n,m}+ mean something else there than elsewhere.
    if (take("?")) {
      if (interval && node.min == node.max) throw Outside{};
      node.greedy = false;
    }
    if (peek() == '+' || peek() == '*' || peek() == '?' || peek() == '{') throw Outside{};
    if (tree_.nodes[child].kind == Kind::Assert || (node.max > 1 && may_be_empty(child))) throw Outside{};
    return add(std::move(node));
  }

  bool quantifier(Node& node) {
    if (take("*")) {
      node.max = RegexTree::kUnlimited;
    } else if (take("+")) {
      node.min = 1;
      node.max = RegexTree::kUnlimited;
    } else if (take("?")) {
      node.max = 1;
    } else if (take("{")) {
      const auto least = number();
      node.min = least.value_or(0);
      node.max = node.min;
      if (take(",")) {
        const auto most = number();
        if (!most && !least) throw Outside{};
        node.max = most.value_or(RegexTree::kUnlimited);
      } else if (!least) {
        throw Outside{};
      }
      if (!take("}") || node.max < node.min) throw Outside{};
    } else {
      return false;
    }
    return true;
  }

  std::optional<uint32_t> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint32_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<uint32_t>(pattern_[at_++] - '0');
      if (value > kMaxRepeat) throw Outside{};
    }
    return value;
  }

  uint32_t atom(bool fold, int depth) {
    if (take("(")) return group(fold, depth);
    if (peek() == '[') {
      if (fold) throw Outside{};
      RegexClassReader reader(pattern_, at_);
      auto set = reader.bracket();
      if (!set) throw Outside{};
      at_ = reader.at();
      return add_set(std::move(*set));
    }
    if (take(".")) return add_set({{0, '\n' - 1}, {'\n' + 1, kLastCode}});
    if (take("^")) return add_test(Test::LineBegin);
    if (take("$")) return add_test(Test::LineEnd);
    if (take("\\A")) return add_test(Test::TextBegin);
    if (take("\\z")) return add_test(Test::TextEnd);
    if (take("\\b")) return add_test(Test::Word, word_set());
    if (take("\\B")) return add_test(Test::NotWord, word_set());
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') throw Outside{};
    RegexClassReader reader(pattern_, at_);
    if (auto set = reader.escape()) {
      at_ = reader.at();
      return add_set(std::move(*set));
    }
    const auto code = reader.character();
    if (!code) throw Outside{};
    at_ = reader.at();
    return add_set(fold ? folded(*code) : CodeSet{{*code, *code}});
  }

  uint32_t word_set() {
    tree_.sets.push_back(*named_class("\\w"));
    return static_cast<uint32_t>(tree_.sets.size() - 1);
  }

  uint32_t group(bool fold, int depth) {
    const auto closed = [&](uint32_t node) {
      if (!take(")")) throw Outside{};
      return node;
    };
    if (take("?:")) return closed(alternatives(fold, depth + 1));
    if (take("?i:")) return closed(alternatives(true, depth + 1));
    if (take("?=")) return closed(look(Test::Ahead, depth));
    if (take("?!")) return closed(look(Test::NotAhead, depth));
    if (take("?<=")) return closed(look(Test::Behind, depth));
    if (take("?<!")) return closed(look(Test::NotBehind, depth));
    if (peek() == '?' || peek() == '*') throw Outside{};
    return closed(alternatives(fold, depth + 1));
  }

  uint32_t look(Test test, int depth) {
    const uint32_t inner = alternatives(false, depth + 1);
    tree_.sets.push_back(single_character(inner));
    return add_test(test, static_cast<uint32_t>(tree_.sets.size() - 1));
  }

  // The set of a node that always matches exactly one character.
  CodeSet single_character(uint32_t index) const {
    const Node& node = tree_.nodes[index];
    if (node.kind == Kind::Set) return tree_.sets[node.set];
    if (node.kind != Kind::Alternate) throw Outside{};
    CodeSet all;
    for (const uint32_t child : node.children) all = united(all, single_character(child));
    return all;
  }

  // (?i:…) over ASCII: a letter, its other case, and the two code points beyond ASCII that fold to one. Ligatures and
  // sharp s fold to two letters and would match "ss", "ff", "fi", "fl", "st": such patterns are left to Oniguruma.
  CodeSet folded(char32_t code) {
    if (code >= 0x80) throw Outside{};
    const char32_t lower = code | 0x20;
    if (lower < 'a' || lower > 'z') return {{code, code}};
    const char next = static_cast<char>(peek() | 0x20);
    const bool ends = !more() || peek() == '|' || peek() == ')';
    if ((lower == 's' || lower == 'f') && !ends) {
      const bool other_letter =
          next >= 'a' && next <= 'z' && next != 's' && next != 't' && next != 'f' && next != 'i' && next != 'l';
      if (!other_letter) throw Outside{};
    }
    CodeSet set = {{lower - 0x20, lower - 0x20}, {lower, lower}};
    if (lower == 's') set.push_back({0x17F, 0x17F});
    if (lower == 'k') set.push_back({0x212A, 0x212A});
    return set;
  }

  bool may_be_empty(uint32_t index) const {
    const Node& node = tree_.nodes[index];
    switch (node.kind) {
      case Kind::Empty:
      case Kind::Assert:
        return true;
      case Kind::Set:
        return false;
      case Kind::Repeat:
        return node.min == 0 || may_be_empty(node.children[0]);
      case Kind::Concat:
        for (const uint32_t child : node.children) {
          if (!may_be_empty(child)) return false;
        }
        return true;
      case Kind::Alternate:
        for (const uint32_t child : node.children) {
          if (may_be_empty(child)) return true;
        }
        return false;
    }
    return true;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  RegexTree tree_;
};

}  // namespace

std::optional<RegexTree> RegexTree::parse(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) return std::nullopt;
  try {
    return Parser(pattern).parse();
  } catch (const Outside&) {
    return std::nullopt;
  }
}

}  // namespace cortiq::text
