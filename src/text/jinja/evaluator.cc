#include "text/jinja/evaluator.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "text/jinja/functions.h"
#include "text/jinja/objects.h"
#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

Value from_json(Runtime& runtime, const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value <= INT64_MAX) return Value::integer(static_cast<int64_t>(value));
      return runtime.integer(BigInt::parse(std::to_string(value), 10));
    }
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return runtime.heap.make<StringObject>(valid_utf8(text) ? text : replace_invalid_utf8(text), false);
    }
    case Json::value_t::array: {
      const Nested nested(runtime);
      Values items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(runtime, item));
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      const Nested nested(runtime);
      Entries entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        entries.emplace_back(runtime.heap.make<StringObject>(key, false), from_json(runtime, value));
      }
      return runtime.dict(std::move(entries));
    }
    default:
      return Value::none();
  }
}

Evaluator::Evaluator(const Ast& ast, const Json& context, const std::optional<std::tm>& now)
    : Runtime(now), ast_(ast), constants_(ast.constants) {
  for (const auto& [key, value] : context.items()) context_.emplace(key, from_json(*this, value));
}

std::string Evaluator::run() {
  Value activation = heap.make<Activation>(ast_.function.slots, Value());
  if (ast_.uses_self) activation.as<Activation>().at(ast_.self) = heap.make<BlocksObject>(*this, ast_);
  enter(ast_.loads, activation.as<Activation>());
  execute(ast_.body, activation);
  return std::move(page_);
}

Value Evaluator::resolve(const std::string& name) {
  if (const auto found = exported_.find(name); found != exported_.end()) return found->second;
  if (const auto found = context_.find(name); found != context_.end()) return found->second;
  for (const Global& global : globals()) {
    if (global.name == name) return context_.emplace(name, make_global(*this, global)).first->second;
  }
  return Value();
}

Value Evaluator::evaluate(const Expression& node, const Value& activation) {
  const Nested nested(*this);
  using Form = Expression::Kind;
  const auto operand = [&](size_t index) { return evaluate(*node.items[index], activation); };
  switch (node.kind) {
    case Form::Constant:
      return constant(node);
    case Form::Name:
      return name(node, activation.as<Activation>());
    case Form::Attribute:
      return get_attribute(*this, operand(0), node.text);
    case Form::Item: {
      const Value object = operand(0);
      return get_item(*this, object, operand(1));
    }
    case Form::Slice: {
      const Value object = operand(0);
      Value bounds[3];
      for (size_t i = 0; i < 3; ++i) {
        if (node.items[i + 1]) bounds[i] = operand(i + 1);
      }
      return slice(*this, object, bounds[0], bounds[1], bounds[2]);
    }
    case Form::Tuple:
    case Form::List: {
      Values items;
      items.reserve(node.items.size());
      for (size_t i = 0; i < node.items.size(); ++i) items.push_back(operand(i));
      return node.kind == Form::List ? list(std::move(items)) : tuple(std::move(items));
    }
    case Form::Dict:
      return dict(node, activation);
    case Form::Call:
      return call_expression(node, activation);
    case Form::Filter:
      return filter_expression(node, activation);
    case Form::Test: {
      const Value value = operand(0);
      Args args = arguments(*node.arguments, activation);
      line_ = node.line;
      return Value::boolean(call_test(node.text, value, args));
    }
    case Form::Not:
      return Value::boolean(!truth(*this, operand(0)));
    case Form::Negative:
      return negate(*this, operand(0));
    case Form::Positive:
      return plus(*this, operand(0));
    case Form::Binary: {
      const Value left = operand(0);
      const Value right = operand(1);
      line_ = node.line;
      return arithmetic(*this, node.operation, left, right);
    }
    case Form::And:
    case Form::Or: {
      Value left = operand(0);
      return truth(*this, left) == (node.kind == Form::And) ? operand(1) : left;
    }
    case Form::Compare:
      return compare_chain(node, activation);
    case Form::Concat:
      return concatenate(node, activation);
    case Form::Condition:
      if (truth(*this, operand(1))) return operand(0);
      if (node.items[2]) return operand(2);
      return undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.", node.line));
    case Form::Field:
      break;
  }
  return Value();
}

Value Evaluator::constant(const Expression& node) {
  Value& known = constants_[node.constant_index];
  if (!known.missing()) return known;
  struct Make {
    Evaluator& evaluator;
    Value operator()(std::monostate) const { return Value::none(); }
    Value operator()(bool value) const { return Value::boolean(value); }
    Value operator()(int64_t value) const { return Value::integer(value); }
    Value operator()(const BigInt& value) const { return evaluator.integer(value); }
    Value operator()(double value) const { return Value::real(value); }
    Value operator()(const std::string& value) const { return evaluator.string(value); }
  };
  return known = std::visit(Make{*this}, node.literal);
}

Value Evaluator::name(const Expression& node, Activation& activation) {
  const Value& value = activation.at(node.reference);
  return value.missing() ? undefined(fmt::format("'{}' is undefined", node.text)) : value;
}

Value Evaluator::dict(const Expression& node, const Value& activation) {
  Entries entries;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    Value key = evaluate(*node.items[i], activation);
    entries.emplace_back(std::move(key), evaluate(*node.items[i + 1], activation));
  }
  return Runtime::dict(std::move(entries));
}

Value Evaluator::compare_chain(const Expression& node, const Value& activation) {
  Value left = evaluate(*node.items[0], activation);
  for (size_t i = 0; i < node.relations.size(); ++i) {
    Value right = evaluate(*node.items[i + 1], activation);
    line_ = node.line;
    if (!compare(*this, node.relations[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::concatenate(const Expression& node, const Value& activation) {
  std::string text;
  for (const ExpressionPtr& item : node.items) {
    const Value value = evaluate(*item, activation);
    if (value.is(Kind::String)) {
      append(text, text_of(value));
    } else {
      append(text, str(*this, value));
    }
  }
  return string(std::move(text));
}

Args Evaluator::arguments(const CallArguments& source, const Value& activation) {
  Args args;
  for (const ExpressionPtr& one : source.positional) args.positional.push_back(evaluate(*one, activation));
  for (const auto& [key, one] : source.keywords) args.keywords.emplace_back(key, evaluate(*one, activation));
  if (source.star) {
    for (Value& item : to_values(*this, evaluate(*source.star, activation))) args.positional.push_back(std::move(item));
  }
  if (source.double_star) {
    const Value mapping = evaluate(*source.double_star, activation);
    if (!mapping.is(Kind::Dict)) raise("argument after ** must be a mapping, not {}", type_name(mapping));
    for (const auto& [key, value] : mapping.as<DictObject>().entries) {
      step();
      if (!key.is(Kind::String)) raise("keywords must be strings");
      for (const auto& known : args.keywords) {
        if (known.first == text_of(key)) raise("got multiple values for keyword argument '{}'", text_of(key));
      }
      args.keywords.emplace_back(text_of(key), value);
      if (args.keywords.size() > 1000) raise("more than 1000 keyword arguments");  // they are compared one by one
    }
  }
  return args;
}

Value Evaluator::call_expression(const Expression& node, const Value& activation, const Value& caller) {
  const Value callee = evaluate(*node.items[0], activation);
  Args args = arguments(*node.arguments, activation);
  if (!caller.missing()) args.keywords.emplace_back("caller", caller);
  line_ = node.line;
  return call(*this, callee, args);
}

Value Evaluator::filter_expression(const Expression& node, const Value& activation) {
  const Value value = node.items[0] ? evaluate(*node.items[0], activation) : block_text_;
  Args args = arguments(*node.arguments, activation);
  line_ = node.line;
  return call_filter(node.text, value, args);
}

Value Evaluator::call_filter(const std::string& name, const Value& value, Args& args) {
  const Filter* filter = find_filter(name);
  if (filter == nullptr) raise("No filter named '{}' found.", name);
  return filter->run(*this, value, args);
}

bool Evaluator::call_test(const std::string& name, const Value& value, Args& args) {
  const Test* test = find_test(name);
  if (test == nullptr) raise("No test named '{}' found.", name);
  return test->run(*this, value, args);
}

}  // namespace cortiq::text::jinja
