#include "text/jinja/objects.h"

#include <algorithm>

#include "text/jinja/operations.h"

namespace cortiq::text::jinja {
namespace {

struct CycleMethod : CallableObject {
  explicit CycleMethod(Value loop_) : loop(std::move(loop_)) {}
  void clear() noexcept override { loop = Value(); }
  Value call(Runtime&, Args& args) override {
    if (!args.keywords.empty()) raise("cycle() takes no keyword arguments");
    if (args.positional.empty()) raise("no items for cycling given");
    return args.positional[static_cast<size_t>(loop.as<LoopObject>().index0) % args.positional.size()];
  }
  std::string repr() const override { return "<bound method LoopContext.cycle>"; }
  const char* type() const override { return "method"; }
  Value loop;
};

struct ChangedMethod : CallableObject {
  explicit ChangedMethod(Value loop_) : loop(std::move(loop_)) {}
  void clear() noexcept override { loop = Value(); }
  Value call(Runtime& runtime, Args& args) override {
    if (!args.keywords.empty()) raise("changed() takes no keyword arguments");
    LoopObject& state = loop.as<LoopObject>();
    const Value now = runtime.tuple(args.positional);
    if (!state.changed.missing() && equal(runtime, state.changed, now)) return Value::boolean(false);
    state.changed = now;
    return Value::boolean(true);
  }
  std::string repr() const override { return "<bound method LoopContext.changed>"; }
  const char* type() const override { return "method"; }
  Value loop;
};

struct BlockReference : CallableObject {
  BlockReference(Evaluator& evaluator_, const Statement& block_) : evaluator(evaluator_), block(block_) {}
  Value call(Runtime&, Args&) override { return evaluator.render_block(block); }
  std::string repr() const override { return fmt::format("<BlockReference '{}'>", block.name); }
  const char* type() const override { return "BlockReference"; }
  Evaluator& evaluator;
  const Statement& block;
};

}  // namespace

Value BlocksObject::attribute(Runtime& runtime, std::string_view name) {
  for (const Statement* block : ast.blocks) {
    if (block->name == name) return runtime.heap.make<BlockReference>(evaluator, *block);
  }
  return Value();
}

Value MacroObject::call(Runtime&, Args& args) { return evaluator.call_macro(node, closure, args); }

Value MacroObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "name") return node.name.empty() ? Value::none() : runtime.string(node.name);
  if (name == "arguments") {
    Values names;
    for (const ExpressionPtr& parameter : node.parameters) names.push_back(runtime.string(parameter->text));
    return runtime.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::boolean(node.uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(node.uses_varargs);
  if (name == "caller") return Value::boolean(node.uses_caller);
  return Value();
}

std::string MacroObject::repr() const {
  return node.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", node.name);
}

Value Evaluator::call_macro(const Statement& macro, const Value& closure, Args& args) {
  const Value activation = heap.make<Activation>(macro.function.slots, closure);
  Activation& own = activation.as<Activation>();
  const auto pop = [&](std::string_view name) {
    Value found;
    for (auto keyword = args.keywords.begin(); keyword != args.keywords.end(); ++keyword) {
      if (keyword->first != name) continue;
      found = std::move(keyword->second);
      args.keywords.erase(keyword);
      break;
    }
    return found;
  };
  enter(macro.loads, own);
  const size_t count = macro.parameters.size();
  bool found_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const Expression& parameter = *macro.parameters[i];
    found_caller = found_caller || parameter.text == "caller";
    own.at(parameter.reference) = i < args.positional.size() ? args.positional[i] : pop(parameter.text);
  }
  if (macro.uses_caller && !found_caller) {
    const Value caller = pop("caller");
    own.at(macro.caller) = caller.none_or_missing() ? undefined("No caller defined") : caller;
  }
  if (macro.uses_kwargs) {
    Entries entries;
    for (auto& [key, value] : args.keywords) entries.emplace_back(string(key), value);
    own.at(macro.kwargs) = Runtime::dict(std::move(entries));
  } else if (!args.keywords.empty()) {
    raise("macro '{}' takes no keyword argument '{}'", macro.name, args.keywords[0].first);
  }
  if (macro.uses_varargs) {
    Values rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    own.at(macro.varargs) = tuple(std::move(rest));
  } else if (args.positional.size() > count) {
    raise("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  const size_t required = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const Expression& parameter = *macro.parameters[i];
    if (!own.at(parameter.reference).missing()) continue;
    Value value = i < required ? undefined(fmt::format("parameter '{}' was not provided", parameter.text))
                               : evaluate(*macro.defaults[i - required], activation);
    own.at(parameter.reference) = std::move(value);
  }
  const Capture capture(*this);
  execute(macro.body, activation);
  return capture.text();
}

LoopObject::LoopObject(Evaluator& owner, const Statement& loop, Value outer_activation, const Value& source,
                       int64_t depth)
    : evaluator(owner),
      node(loop),
      outer(std::move(outer_activation)),
      items(source),
      cursor(owner, source),
      depth0(depth) {}

void LoopObject::clear() noexcept {
  outer = items = before = current = after = changed = Value();
  cursor.clear();
}

const Value& LoopObject::peek() {
  if (!peeked) after = cursor.next();
  peeked = !after.missing();
  return after;
}

Value LoopObject::advance() {
  Value item = peeked ? std::move(after) : cursor.next();
  after = Value();
  peeked = false;
  if (item.missing()) return item;
  ++index0;
  before = std::move(current);
  current = item;
  return item;
}

int64_t LoopObject::length(Runtime& runtime) {
  if (known_length >= 0) return known_length;
  known_length = jinja::length(runtime, items);
  if (known_length < 0) {
    Values rest;
    for (Value item = cursor.next(); !item.missing(); item = cursor.next()) {
      if (rest.size() == rest.capacity()) runtime.heap.demand(3 * rest.size() * sizeof(Value));
      rest.push_back(std::move(item));
    }
    known_length = static_cast<int64_t>(rest.size()) + index0 + 1 + (peeked ? 1 : 0);
    cursor = Cursor(runtime, runtime.list(std::move(rest)));
  }
  return known_length;
}

Value LoopObject::call(Runtime&, Args& args) {
  if (!node.recursive) raise("The loop must have the 'recursive' marker to be called recursively.");
  const Bound bound("loop", args, {"iterable"}, 1);
  return evaluator.recurse(node, outer, bound[0], depth0 + 1);
}

Value LoopObject::attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(peek().missing());
  if (name == "length") return Value::integer(length(runtime));
  if (name == "revindex") return Value::integer(length(runtime) - index0);
  if (name == "revindex0") return Value::integer(length(runtime) - index0 - 1);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "previtem") return index0 == 0 ? runtime.undefined("there is no previous item") : before;
  if (name == "nextitem") return peek().missing() ? runtime.undefined("there is no next item") : after;
  if (name == "cycle") return runtime.heap.make<CycleMethod>(Value::of(this));
  if (name == "changed") return runtime.heap.make<ChangedMethod>(Value::of(this));
  return Value();
}

std::string LoopObject::repr() const {
  return fmt::format("<LoopContext {}/{}>", index0 + 1, const_cast<LoopObject*>(this)->length(evaluator));
}

}  // namespace cortiq::text::jinja
