#pragma once
#include <string>
#include <string_view>

#include "text/jinja/evaluator.h"

namespace cortiq::text::jinja {

/// A macro, or the body of a call block, with the variables of the place where it stands.
struct MacroObject : CallableObject {
  MacroObject(Evaluator& evaluator_, const Statement& node_, Value closure_)
      : evaluator(evaluator_), node(node_), closure(std::move(closure_)) {}
  void clear() noexcept override { closure = Value(); }
  Value call(Runtime& runtime, Args& args) override;
  Value attribute(Runtime& runtime, std::string_view name) override;
  std::string repr() const override;
  const char* type() const override { return "Macro"; }
  Evaluator& evaluator;
  const Statement& node;
  Value closure;
};

/// What `loop` is inside a for loop.
struct LoopObject : CallableObject {
  LoopObject(Evaluator& evaluator, const Statement& node, Value outer, const Value& items, int64_t depth);
  void clear() noexcept override;
  /// The next item, or a missing value.
  Value advance();
  Value call(Runtime& runtime, Args& args) override;
  Value attribute(Runtime& runtime, std::string_view name) override;
  int64_t length(Runtime& runtime) override;
  std::string repr() const override;
  const char* type() const override { return "LoopContext"; }

  const Value& peek();

  Evaluator& evaluator;
  const Statement& node;
  Value outer, items;
  Cursor cursor;
  int64_t index0 = -1, depth0, known_length = -1;
  Value before, current, after, changed;
  bool peeked = false;
};

/// The items of a for loop with a condition, found as they are asked for.
struct FilteredItems : IteratorObject {
  FilteredItems(Evaluator& evaluator_, const Statement& loop_, Value activation_, const Value& source)
      : IteratorObject("generator"),
        evaluator(evaluator_),
        loop(loop_),
        activation(std::move(activation_)),
        cursor(evaluator_, source) {}
  void clear() noexcept override {
    activation = Value();
    cursor.clear();
  }
  Value next(Runtime&) override { return evaluator.next_passing(loop, activation, cursor); }
  Evaluator& evaluator;
  const Statement& loop;
  Value activation;
  Cursor cursor;
};

/// `self`: the blocks of the template.
struct BlocksObject : CallableObject {
  BlocksObject(Evaluator& evaluator_, const Ast& ast_) : evaluator(evaluator_), ast(ast_) {}
  Value call(Runtime&, Args&) override { raise("'TemplateReference' object is not callable"); }
  Value attribute(Runtime& runtime, std::string_view name) override;
  bool callable() const override { return false; }
  std::string repr() const override { return "<TemplateReference None>"; }
  const char* type() const override { return "TemplateReference"; }
  Evaluator& evaluator;
  const Ast& ast;
};

}  // namespace cortiq::text::jinja
