#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace cortiq::text::jinja {

/// The variables of one running function.
struct Activation : Object {
  Activation(uint32_t slots_, Value parent_) : Object(Kind::Activation), slots(slots_), parent(std::move(parent_)) {}
  void clear() noexcept override {
    slots.clear();
    parent = Value();
  }
  size_t extra() const noexcept override { return slots.capacity() * sizeof(Value); }
  Value& at(const Reference& reference) {
    Activation* activation = this;
    for (uint32_t hop = 0; hop < reference.hops; ++hop) activation = &activation->parent.as<Activation>();
    return activation->slots[reference.slot];
  }
  Values slots;
  Value parent;
};

/// One rendering of a template.
class Evaluator : public Runtime {
 public:
  Evaluator(const Ast& ast, const Json& context, const std::optional<std::tm>& now);
  std::string run();
  /// The line that was being rendered, for errors.
  size_t line() const { return line_; }

  Value call_filter(const std::string& name, const Value& value, Args& args) override;
  bool call_test(const std::string& name, const Value& value, Args& args) override;

  // For macros, loops and blocks.
  Value call_macro(const Statement& macro, const Value& closure, Args& args);
  Value recurse(const Statement& loop, const Value& outer, const Value& items, int64_t level);
  Value render_block(const Statement& block);
  /// The items of `source` that pass the loop's condition; see filtered_items.
  Value next_passing(const Statement& loop, const Value& activation, Cursor& source);

 private:
  enum class Flow : uint8_t { Normal, Break, Continue };

  /// Collects output apart from the page until it goes out of scope.
  class Capture {
   public:
    explicit Capture(Evaluator& evaluator) : evaluator_(evaluator), outer_(evaluator.out_) { evaluator.out_ = &text_; }
    ~Capture() {
      evaluator_.out_ = outer_;
      evaluator_.heap.discharge(text_.size());
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Value text() const { return evaluator_.string(text_); }

   private:
    Evaluator& evaluator_;
    std::string* outer_;
    std::string text_;
  };

  void write(std::string_view text);
  void write(const Value& value);

  Flow execute(const Statements& statements, const Value& activation);
  Flow execute(const Statement& node, const Value& activation);
  Flow execute_if(const Statement& node, const Value& activation);
  Flow execute_for(const Statement& node, const Value& activation);
  Flow run_loop(const Statement& node, const Value& activation, const Value& outer, const Value& items, int64_t level);
  Flow execute_with(const Statement& node, const Value& activation);
  void execute_set(const Statement& node, const Value& activation);
  Flow execute_capture(const Statement& node, const Value& activation);
  void execute_call_block(const Statement& node, const Value& activation);
  void enter(const Loads& loads, Activation& activation);
  static void leave(const Loads& loads, Activation& activation);
  void assign(const Expression& target, const Value& value, Activation& activation);
  static void check_fields(const Expression& target, Activation& activation);
  void export_names(const Expression& target, Activation& activation);

  Value evaluate(const Expression& node, const Value& activation);
  Value constant(const Expression& node);
  Value name(const Expression& node, Activation& activation);
  Value dict(const Expression& node, const Value& activation);
  Value compare_chain(const Expression& node, const Value& activation);
  Value concatenate(const Expression& node, const Value& activation);
  Value call_expression(const Expression& node, const Value& activation, const Value& caller = Value());
  Value filter_expression(const Expression& node, const Value& activation);
  Args arguments(const CallArguments& source, const Value& activation);

  Value resolve(const std::string& name);

  const Ast& ast_;
  std::map<std::string, Value, std::less<>> context_;
  std::map<std::string, Value, std::less<>> exported_;
  Values constants_;
  Value block_text_;  // what a filter block's filter applies to
  std::string page_;
  std::string* out_ = &page_;
  size_t line_ = 1;
};

/// Values of a JSON document.
Value from_json(Runtime& runtime, const Json& json);

}  // namespace cortiq::text::jinja
