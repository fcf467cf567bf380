#include "text/jinja/evaluator.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

void Evaluator::write(std::string_view text) {
  step(1 + text.size() / 64);
  heap.charge(text.size());
  if (out_->size() + text.size() > out_->capacity()) heap.demand(out_->size() + text.size());
  *out_ += text;
}

void Evaluator::write(const Value& value) {
  if (value.is(Kind::String)) {
    write(text_of(value));
  } else if (!value.is(Kind::Undefined)) {
    write(str(*this, value));
  }
}

void Evaluator::enter(const Loads& loads, Activation& activation) {
  for (const Load& load : loads) {
    step();
    Value value;
    if (load.from == Load::From::Context) value = resolve(load.name);
    if (load.from == Load::From::Outer) value = activation.at(load.outer);
    activation.at(load.variable) = std::move(value);
  }
}

void Evaluator::leave(const Loads& loads, Activation& activation) {
  for (const Load& load : loads) activation.at(load.variable) = Value();
}

Evaluator::Flow Evaluator::execute(const Statements& statements, const Value& activation) {
  for (const auto& statement : statements) {
    if (const Flow flow = execute(*statement, activation); flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::execute(const Statement& node, const Value& activation) {
  const Nested nested(*this);
  line_ = node.line;
  switch (node.kind) {
    case Statement::Kind::Output:
      for (const ExpressionPtr& expression : node.expressions) {
        line_ = expression->line;
        write(evaluate(*expression, activation));
      }
      return Flow::Normal;
    case Statement::Kind::If:
      return execute_if(node, activation);
    case Statement::Kind::For:
      return execute_for(node, activation);
    case Statement::Kind::Set:
      execute_set(node, activation);
      return Flow::Normal;
    case Statement::Kind::SetBlock:
    case Statement::Kind::FilterBlock:
      return execute_capture(node, activation);
    case Statement::Kind::With:
      return execute_with(node, activation);
    case Statement::Kind::Macro:
      assign(*node.target, heap.make<MacroObject>(*this, node, activation), activation.as<Activation>());
      if (node.exported) export_names(*node.target, activation.as<Activation>());
      return Flow::Normal;
    case Statement::Kind::CallBlock:
      execute_call_block(node, activation);
      return Flow::Normal;
    case Statement::Kind::Generation: {
      Args args;
      write(call_macro(node, activation, args));
      return Flow::Normal;
    }
    case Statement::Kind::Block:
      write(render_block(node));
      return Flow::Normal;
    case Statement::Kind::Break:
      return Flow::Break;
    case Statement::Kind::Continue:
      return Flow::Continue;
    case Statement::Kind::Refused:
      raise("'{}' needs other templates; a chat template stands alone", node.name);
  }
  return Flow::Normal;
}

Evaluator::Flow Evaluator::execute_if(const Statement& node, const Value& activation) {
  for (const Statement* branch = &node;;) {
    if (truth(*this, evaluate(*branch->expressions[0], activation))) return execute(branch->body, activation);
    const bool chained = branch->otherwise.size() == 1 && branch->otherwise[0]->kind == Statement::Kind::If;
    if (!chained) return execute(branch->otherwise, activation);
    branch = branch->otherwise[0].get();
    line_ = branch->line;
  }
}

Value Evaluator::next_passing(const Statement& loop, const Value& activation, Cursor& source) {
  Activation& own = activation.as<Activation>();
  for (Value item = source.next(); !item.missing(); item = source.next()) {
    assign(*loop.test_target, item, own);
    if (!truth(*this, evaluate(*loop.test, activation))) continue;
    // jinja2 hands on the variables, not the item: a list that was unpacked arrives as a tuple.
    return evaluate(*loop.test_target, activation);
  }
  return Value();
}

Evaluator::Flow Evaluator::execute_for(const Statement& node, const Value& activation) {
  const Value items = evaluate(*node.expressions[0], activation);
  if (node.recursive) {
    write(recurse(node, activation, items, 0));
    return Flow::Normal;
  }
  return run_loop(node, activation, activation, items, 0);
}

Value Evaluator::recurse(const Statement& loop, const Value& outer, const Value& items, int64_t level) {
  const Value activation = heap.make<Activation>(loop.function.slots, outer);
  const Capture capture(*this);
  run_loop(loop, activation, outer, items, level);
  return capture.text();
}

Evaluator::Flow Evaluator::run_loop(const Statement& node, const Value& activation, const Value& outer,
                                    const Value& source, int64_t level) {
  Activation& own = activation.as<Activation>();
  Value items = source;
  if (node.test) {
    const Value test = heap.make<Activation>(node.test_function.slots, activation);
    enter(node.test_loads, test.as<Activation>());
    items = heap.make<FilteredItems>(*this, node, test, items);
  }
  const Value loop = node.extended ? heap.make<LoopObject>(*this, node, outer, items, level) : Value();
  std::optional<Cursor> cursor;
  if (!node.extended) cursor.emplace(*this, items);
  bool empty = true;
  for (;;) {
    const Value item = node.extended ? loop.as<LoopObject>().advance() : cursor->next();
    if (item.missing()) break;
    empty = false;
    assign(*node.target, item, own);
    if (node.extended) own.at(node.loop) = loop;
    enter(node.loads, own);
    if (execute(node.body, activation) == Flow::Break) break;
  }
  leave(node.loads, own);
  if (!empty || node.otherwise.empty()) return Flow::Normal;
  enter(node.otherwise_loads, own);
  const Flow flow = execute(node.otherwise, activation);
  leave(node.otherwise_loads, own);
  return flow;
}

Evaluator::Flow Evaluator::execute_with(const Statement& node, const Value& activation) {
  Activation& own = activation.as<Activation>();
  enter(node.loads, own);
  for (size_t i = 0; i < node.parameters.size(); ++i) {
    assign(*node.parameters[i], evaluate(*node.expressions[i], activation), own);
  }
  const Flow flow = execute(node.body, activation);
  leave(node.loads, own);
  return flow;
}

void Evaluator::check_fields(const Expression& target, Activation& activation) {
  if (target.kind == Expression::Kind::Tuple) {
    for (const ExpressionPtr& item : target.items) check_fields(*item, activation);
  } else if (target.kind == Expression::Kind::Field && !activation.at(target.reference).is(Kind::Namespace)) {
    raise("cannot assign attribute on non-namespace object");
  }
}

void Evaluator::assign(const Expression& target, const Value& value, Activation& activation) {
  step();
  if (target.kind == Expression::Kind::Name) {
    activation.at(target.reference) = value;
    return;
  }
  if (target.kind == Expression::Kind::Field) {
    Value key = string(target.field);
    Entries& attributes = activation.at(target.reference).as<NamespaceObject>().attributes;
    for (auto& [known, current] : attributes) {
      if (text_of(known) == target.field) {
        current = value;
        return;
      }
    }
    heap.charge(sizeof(Entries::value_type) * 2);  // kept until the end: a namespace only grows
    attributes.emplace_back(std::move(key), value);
    return;
  }
  const size_t wanted = target.items.size();
  if (!iterable(value)) raise("cannot unpack non-iterable {} object", type_name(value));
  Values parts;
  Cursor cursor(*this, value);
  for (Value part = cursor.next(); !part.missing(); part = cursor.next()) {
    if (parts.size() == wanted) raise("too many values to unpack (expected {})", wanted);
    parts.push_back(std::move(part));
  }
  if (parts.size() < wanted) raise("not enough values to unpack (expected {}, got {})", wanted, parts.size());
  for (size_t i = 0; i < wanted; ++i) assign(*target.items[i], parts[i], activation);
}

void Evaluator::export_names(const Expression& target, Activation& activation) {
  if (ast_.blocks.empty()) return;
  if (target.kind == Expression::Kind::Name) exported_[target.text] = activation.at(target.reference);
  if (target.kind == Expression::Kind::Tuple) {
    for (const ExpressionPtr& item : target.items) export_names(*item, activation);
  }
}

void Evaluator::execute_set(const Statement& node, const Value& activation) {
  Activation& own = activation.as<Activation>();
  check_fields(*node.target, own);
  assign(*node.target, evaluate(*node.expressions[0], activation), own);
  if (node.exported) export_names(*node.target, own);
}

// {% set x %}…{% endset %} and {% filter f %}…{% endfilter %}: text that is kept, or filtered and written.
Evaluator::Flow Evaluator::execute_capture(const Statement& node, const Value& activation) {
  Activation& own = activation.as<Activation>();
  if (node.kind == Statement::Kind::SetBlock) check_fields(*node.target, own);
  Value text;
  enter(node.loads, own);
  {
    const Capture capture(*this);
    if (const Flow flow = execute(node.body, activation); flow != Flow::Normal) return flow;
    text = capture.text();
  }
  if (!node.expressions.empty()) {
    std::swap(block_text_, text);
    Value filtered = evaluate(*node.expressions[0], activation);
    std::swap(block_text_, text);
    text = std::move(filtered);
  }
  if (node.kind == Statement::Kind::FilterBlock) {
    write(text);
  } else {
    assign(*node.target, text, own);
    if (node.exported) export_names(*node.target, own);
  }
  leave(node.loads, own);
  return Flow::Normal;
}

void Evaluator::execute_call_block(const Statement& node, const Value& activation) {
  const Value caller = heap.make<MacroObject>(*this, node, activation);
  write(call_expression(*node.expressions[0], activation, caller));
}

Value Evaluator::render_block(const Statement& block) {
  const Nested nested(*this);
  const Value activation = heap.make<Activation>(block.function.slots, Value());
  enter(block.loads, activation.as<Activation>());
  const Capture capture(*this);
  execute(block.body, activation);
  return capture.text();
}

}  // namespace cortiq::text::jinja
