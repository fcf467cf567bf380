#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/big_int.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Statements = std::vector<std::unique_ptr<Statement>>;

/// Where a variable lives: `hops` functions out, slot `slot` of that function's activation (scopes.h).
struct Reference {
  uint32_t hops = 0;
  uint32_t slot = 0;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  ExpressionPtr star, double_star;
};

using Literal = std::variant<std::monostate, bool, int64_t, BigInt, double, std::string>;

struct Expression {
  enum class Kind : uint8_t {
    Constant,
    Name,       // text, reference
    Attribute,  // items[0] . text
    Item,       // items[0] [ items[1] ]
    Slice,      // items[0] [ items[1] : items[2] : items[3] ], null where left out
    Tuple,
    List,
    Dict,    // key, value, key, value …
    Call,    // items[0] ( arguments )
    Filter,  // items[0] | text ( arguments ); items[0] is null in filter blocks
    Test,    // items[0] is text ( arguments )
    Not,
    Negative,
    Positive,
    Binary,  // items[0] operation items[1]
    And,
    Or,
    Compare,  // items[0] relations[0] items[1] relations[1] …
    Concat,
    Condition,  // items[0] if items[1] else items[2] (null: undefined)
    Field,      // an assigned field of a namespace: text . field
  };

  Kind kind;
  Arithmetic operation = Arithmetic::Add;
  uint32_t depth = 1;
  uint32_t line = 0;
  size_t offset = 0;
  uint32_t constant_index = 0;
  Reference reference;
  std::string text, field;
  std::vector<ExpressionPtr> items;
  std::vector<Relation> relations;
  std::unique_ptr<CallArguments> arguments;
  Literal literal;
};

/// What happens to a variable when a scope is entered.
struct Load {
  enum class From : uint8_t { Nothing, Context, Outer };
  From from;
  Reference variable, outer;
  std::string name;
};
using Loads = std::vector<Load>;

/// A piece of template with variables of its own: the whole, a macro, a call block, a recursive loop, a loop's filter.
struct Function {
  uint32_t slots = 0;
};

struct Statement {
  enum class Kind : uint8_t {
    Output,       // expressions; a Constant string here may be template text
    If,           // expressions[0], body, otherwise (elif: a nested If)
    For,          // target in expressions[0] if test: body else otherwise
    Set,          // target = expressions[0]
    SetBlock,     // target = body, through the filter expressions[0] if any
    With,         // parameters[i] = expressions[i]; body
    Macro,        // name(parameters = defaults): body
    CallBlock,    // expressions[0] is the call; parameters, defaults, body
    Generation,   // body, in a function of its own
    FilterBlock,  // expressions[0], body
    Block,        // name, body
    Break,
    Continue,
    Refused,  // a tag that needs other templates: name; expressions are kept for their variables
  };

  Kind kind;
  uint32_t line = 0;
  size_t offset = 0;
  std::string name;
  ExpressionPtr target, test, test_target;
  std::vector<ExpressionPtr> expressions, parameters, defaults;
  Statements body, otherwise;
  Loads loads, otherwise_loads, test_loads;
  bool recursive = false;  // For
  bool extended = false;   // For: the body reads `loop`
  bool exported = false;   // Set, SetBlock, Macro: at top level, visible to blocks
  Reference loop;          // For: `loop`; Macro: its own name
  Function function;       // Macro, CallBlock, Generation, Block, recursive For
  Function test_function;  // For with a test
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
  Reference caller, kwargs, varargs;
};

struct Ast {
  Statements body;
  Function function;
  Loads loads;
  Reference self;
  bool uses_self = false;
  uint32_t constants = 0;
  std::vector<const Statement*> blocks;
};

}  // namespace cortiq::text::jinja
