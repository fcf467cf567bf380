#include "text/jinja/scopes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "text/jinja/walk.h"

namespace cortiq::text::jinja {
namespace {

/// A function's slots by nesting level and name: scopes of one level that follow each other share them.
struct Slots {
  const Slots* parent = nullptr;
  Function* function = nullptr;
  std::map<std::pair<int, std::string>, uint32_t> known;
  bool in_loop = false;

  uint32_t at(int level, const std::string& name) {
    const auto [entry, fresh] = known.emplace(std::pair(level, name), function->slots);
    if (fresh) ++function->slots;
    return entry->second;
  }
};

struct Variable {
  const Slots* owner;
  uint32_t slot;
};

/// The names of one scope. A copy tries a branch of an `if`.
class Scope {
 public:
  struct Source {
    Load::From from;
    std::optional<Variable> outer;
  };

  Scope(const Scope* parent, Slots& slots)
      : parent_(parent), slots_(&slots), level_(parent != nullptr ? parent->level_ + 1 : 0) {}

  const Variable* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      if (const auto found = scope->refs_.find(name); found != scope->refs_.end()) return &found->second;
    }
    return nullptr;
  }

  void parameter(const std::string& name) {
    stores_.insert(name);
    define(name, {Load::From::Nothing, {}});
    parameters_.insert(name);
  }

  void store(const std::string& name) {
    stores_.insert(name);
    if (refs_.count(name) != 0) return;
    const Variable* outer = parent_ != nullptr ? parent_->find(name) : nullptr;
    if (outer != nullptr) {
      define(name, {Load::From::Outer, *outer});
    } else {
      define(name, {Load::From::Nothing, {}});
    }
  }

  void load(const std::string& name) {
    if (find(name) == nullptr) define(name, {Load::From::Context, {}});
  }

  // What some branch stores has, on the other ways, the value it had before.
  void join(const std::vector<Scope>& branches) {
    std::set<std::string> stored;
    for (const Scope& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
    for (const std::string& name : stores_) stored.erase(name);
    for (const Scope& branch : branches) {
      for (const auto& [name, variable] : branch.refs_) refs_.insert_or_assign(name, variable);
      for (const auto& [name, source] : branch.sources_) sources_.insert_or_assign(name, source);
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const std::string& name : stored) {
      const Variable* outer = parent_ != nullptr ? parent_->find(name) : nullptr;
      sources_[name] = outer != nullptr ? Source{Load::From::Outer, *outer} : Source{Load::From::Context, {}};
    }
  }

  Reference reference(const Variable& variable) const {
    uint32_t hops = 0;
    for (const Slots* slots = slots_; slots != variable.owner; slots = slots->parent) ++hops;
    return {hops, variable.slot};
  }
  Reference reference(const std::string& name) const { return reference(*find(name)); }

  Loads loads() const {
    Loads result;
    for (const auto& [name, source] : sources_) {
      if (parameters_.count(name) != 0) continue;
      Load load{source.from, reference(refs_.at(name)), {}, name};
      if (source.outer) load.outer = reference(*source.outer);
      result.push_back(std::move(load));
    }
    return result;
  }

  Slots& slots() const { return *slots_; }
  size_t size() const { return refs_.size(); }

 private:
  void define(const std::string& name, Source source) {
    refs_.insert_or_assign(name, Variable{slots_, slots_->at(level_, name)});
    sources_.insert_or_assign(name, source);
  }

  const Scope* parent_;
  Slots* slots_;
  int level_;
  std::map<std::string, Variable> refs_;
  std::map<std::string, Source> sources_;
  std::set<std::string> stores_, parameters_;
};

class Resolver {
 public:
  Resolver(Ast& ast, const Lexer& lexer) : ast_(ast), lexer_(lexer) {}

  void run() {
    Slots slots{nullptr, &ast_.function, {}, false};
    Scope root(nullptr, slots);
    if (reads(ast_.body, "self")) {
      root.parameter("self");
      ast_.uses_self = true;
      ast_.self = root.reference("self");
    }
    declare(ast_.body, root);
    ast_.loads = root.loads();
    resolve(ast_.body, root, true);
  }

 private:
  // ---- which names a scope has: stops at inner scopes, but sees what they read from this one ----

  void declare(const Statements& statements, Scope& scope) {
    for (const auto& statement : statements) declare(*statement, scope);
  }

  void declare_loads(const Expression* node, Scope& scope) {
    if (node == nullptr) return;
    if (node->kind == Expression::Kind::Name || node->kind == Expression::Kind::Field) scope.load(node->text);
    for_each_child(*node, [&](const Expression& child) { declare_loads(&child, scope); });
  }

  void declare_stores(const Expression& target, Scope& scope, bool parameters) {
    if (target.kind == Expression::Kind::Tuple) {
      for (const auto& item : target.items) declare_stores(*item, scope, parameters);
    } else if (target.kind == Expression::Kind::Field) {
      scope.load(target.text);
    } else if (parameters) {
      scope.parameter(target.text);
    } else {
      scope.store(target.text);
    }
  }

  void declare(const Statement& node, Scope& scope) {
    using Tag = Statement::Kind;
    work(1 + node.expressions.size());
    switch (node.kind) {
      case Tag::Output:
      case Tag::CallBlock:
      case Tag::FilterBlock:
      case Tag::For:  // only what it goes through
      case Tag::With:
        for (const auto& expression : node.expressions) declare_loads(expression.get(), scope);
        break;
      case Tag::Set:
        declare_loads(node.expressions[0].get(), scope);
        declare_stores(*node.target, scope, false);
        break;
      case Tag::SetBlock:
      case Tag::Macro:
        declare_stores(*node.target, scope, false);
        break;
      case Tag::If: {
        declare_loads(node.expressions[0].get(), scope);
        work(2 * scope.size());
        std::vector<Scope> branches(2, scope);
        declare(node.body, branches[0]);
        declare(node.otherwise, branches[1]);
        scope.join(branches);
        break;
      }
      case Tag::Refused:
        for (const auto& expression : node.expressions) declare_loads(expression.get(), scope);
        for (const auto& name : node.parameters) scope.store(name->text);
        break;
      case Tag::Generation:
      case Tag::Block:
      case Tag::Break:
      case Tag::Continue:
        break;
    }
  }

  // ---- where each name lives ----

  void resolve(Statements& statements, const Scope& scope, bool top) {
    for (auto& statement : statements) resolve(*statement, scope, top);
  }

  void resolve(Expression* node, const Scope& scope) {
    if (node == nullptr) return;
    if (node->kind == Expression::Kind::Name || node->kind == Expression::Kind::Field) {
      const Variable* variable = scope.find(node->text);
      if (variable == nullptr) lexer_.fail_at(node->offset, fmt::format("'{}' cannot be used here", node->text));
      node->reference = scope.reference(*variable);
    }
    for_each_child(*node, [&](Expression& child) { resolve(&child, scope); });
  }

  void resolve(Statement& node, const Scope& scope, bool top) {
    using Tag = Statement::Kind;
    work(1);
    node.exported = top && (node.kind == Tag::Set || node.kind == Tag::SetBlock || node.kind == Tag::Macro);
    switch (node.kind) {
      case Tag::For:
        return resolve_for(node, scope);
      case Tag::Macro:
        resolve(node.target.get(), scope);
        return resolve_macro(node, scope);
      case Tag::CallBlock:
        resolve(node.expressions[0].get(), scope);
        return resolve_macro(node, scope);
      case Tag::Generation:
        return resolve_macro(node, scope);
      case Tag::Block:
        return resolve_block(node);
      case Tag::If:
        resolve(node.expressions[0].get(), scope);
        resolve(node.body, scope, top);
        return resolve(node.otherwise, scope, top);
      case Tag::SetBlock:
      case Tag::FilterBlock: {
        Scope inner(&scope, scope.slots());
        if (node.kind == Tag::SetBlock) resolve(node.target.get(), scope);
        if (!node.expressions.empty()) declare_loads(node.expressions[0].get(), inner);
        declare(node.body, inner);
        node.loads = inner.loads();
        if (!node.expressions.empty()) resolve(node.expressions[0].get(), inner);
        return resolve(node.body, inner, false);
      }
      case Tag::With: {
        Scope inner(&scope, scope.slots());
        for (const auto& target : node.parameters) declare_stores(*target, inner, true);
        declare(node.body, inner);
        node.loads = inner.loads();
        for (auto& target : node.parameters) resolve(target.get(), inner);
        for (auto& value : node.expressions) resolve(value.get(), scope);
        return resolve(node.body, inner, false);
      }
      case Tag::Break:
      case Tag::Continue:
        if (!scope.slots().in_loop)
          lexer_.fail_at(node.offset, fmt::format("'{}' outside loop", node.kind == Tag::Break ? "break" : "continue"));
        return;
      case Tag::Output:
      case Tag::Set:
      case Tag::Refused:
        for (auto& expression : node.expressions) resolve(expression.get(), scope);
        if (node.target) resolve(node.target.get(), scope);
        return;
    }
  }

  void resolve_for(Statement& node, const Scope& scope) {
    if (stores_loop(node)) lexer_.fail_at(node.offset, "Can't assign to special loop variable in for-loop target");
    resolve(node.expressions[0].get(), scope);
    node.extended = node.recursive || reads(node.body, "loop");
    Slots own{&scope.slots(), &node.function, {}, false};
    Slots& slots = node.recursive ? own : scope.slots();
    const bool outer_loop = slots.in_loop;
    Scope inner(&scope, slots);
    if (node.extended) {
      inner.parameter("loop");
      node.loop = inner.reference("loop");
    }
    declare_stores(*node.target, inner, true);
    declare(node.body, inner);
    node.loads = inner.loads();
    resolve(node.target.get(), inner);
    slots.in_loop = true;
    resolve(node.body, inner, false);
    slots.in_loop = outer_loop;
    if (!node.otherwise.empty()) {
      Scope other(&scope, slots);
      declare(node.otherwise, other);
      node.otherwise_loads = other.loads();
      resolve(node.otherwise, other, false);
    }
    if (node.test) {
      // The condition runs ahead of the body when the loop looks at the next item: it has variables of its own.
      Slots test_slots{&slots, &node.test_function, {}, false};
      Scope test(&scope, test_slots);
      declare_stores(*node.test_target, test, true);
      declare_loads(node.test.get(), test);
      node.test_loads = test.loads();
      resolve(node.test_target.get(), test);
      resolve(node.test.get(), test);
    }
  }

  void resolve_macro(Statement& node, const Scope& scope) {
    Slots slots{&scope.slots(), &node.function, {}, false};
    Scope inner(&scope, slots);
    std::set<std::string> names;
    for (const auto& parameter : node.parameters) {
      inner.parameter(parameter->text);
      names.insert(parameter->text);
    }
    const auto special = [&](const char* name, bool& uses, Reference& reference) {
      if (!reads(node.body, name) || (names.count(name) != 0 && std::string_view(name) != "caller")) return;
      if (names.count(name) != 0) {
        const size_t index = static_cast<size_t>(std::find_if(node.parameters.begin(), node.parameters.end(),
                                                              [&](const auto& p) { return p->text == name; }) -
                                                 node.parameters.begin());
        if (index + node.defaults.size() < node.parameters.size()) {
          lexer_.fail_at(node.offset, "the special \"caller\" argument must be omitted or be given a default");
        }
      } else {
        inner.parameter(name);
        reference = inner.reference(name);
      }
      uses = true;
    };
    if (node.kind != Statement::Kind::Generation) {
      special("caller", node.uses_caller, node.caller);
      special("kwargs", node.uses_kwargs, node.kwargs);
      special("varargs", node.uses_varargs, node.varargs);
    }
    for (const auto& value : node.defaults) declare_loads(value.get(), inner);
    declare(node.body, inner);
    node.loads = inner.loads();
    for (auto& parameter : node.parameters) resolve(parameter.get(), inner);
    for (auto& value : node.defaults) resolve(value.get(), inner);
    resolve(node.body, inner, false);
  }

  void resolve_block(Statement& node) {
    for (const Statement* other : ast_.blocks) {
      if (other->name == node.name) lexer_.fail_at(node.offset, fmt::format("block '{}' defined twice", node.name));
    }
    ast_.blocks.push_back(&node);
    Slots slots{nullptr, &node.function, {}, false};
    Scope inner(nullptr, slots);
    declare(node.body, inner);
    node.loads = inner.loads();
    resolve(node.body, inner, false);
  }

  void work(size_t amount) {
    work_ += amount;
    if (work_ > 20'000'000) lexer_.fail_at(0, "the template is too complex");
  }

  // jinja2's find_undeclared: is `name` read before it is stored?
  bool reads(const Statements& body, std::string_view name) {
    bool stored = false;
    return reads(body, name, stored);
  }

  bool reads(const Statements& body, std::string_view name, bool& stored) {
    for (const auto& node : body) {
      if (reads(*node, name, stored)) return true;
      if (stored) return false;
    }
    return false;
  }

  bool reads(const Expression* node, std::string_view name) {
    if (node == nullptr) return false;
    work(1);
    if (node->kind == Expression::Kind::Name && node->text == name) return true;
    bool found = false;
    for_each_child(*node, [&](const Expression& child) { found = found || reads(&child, name); });
    return found;
  }

  static void note_stores(const Expression* target, std::string_view name, bool& stored) {
    if (target == nullptr) return;
    if (target->kind == Expression::Kind::Name && target->text == name) stored = true;
    if (target->kind == Expression::Kind::Tuple) {
      for (const auto& item : target->items) note_stores(item.get(), name, stored);
    }
  }

  bool reads(const Statement& node, std::string_view name, bool& stored) {
    if (node.kind == Statement::Kind::Block) return false;
    const auto any = [&](const std::vector<ExpressionPtr>& list) {
      return std::any_of(list.begin(), list.end(), [&](const ExpressionPtr& one) { return reads(one.get(), name); });
    };
    const bool target_first = node.kind == Statement::Kind::For || node.kind == Statement::Kind::Set ||
                              node.kind == Statement::Kind::SetBlock;
    if (target_first) note_stores(node.target.get(), name, stored);
    if (stored) return false;
    if (node.kind == Statement::Kind::With) {
      for (const auto& target : node.parameters) note_stores(target.get(), name, stored);
      if (stored) return false;
    }
    if (any(node.expressions)) return true;
    if (node.kind != Statement::Kind::With) {
      for (const auto& parameter : node.parameters) note_stores(parameter.get(), name, stored);
      if (stored) return false;
    }
    if (any(node.defaults) || reads(node.body, name, stored)) return true;
    if (stored) return false;
    return reads(node.otherwise, name, stored) || (!stored && reads(node.test.get(), name));
  }

  static bool is_loop(const Expression* target) {
    bool stored = false;
    note_stores(target, "loop", stored);
    return stored;
  }

  static bool stores_loop(const Statement& node) {
    if (is_loop(node.target.get()) && node.kind != Statement::Kind::Macro) return true;
    for (const auto& parameter : node.parameters) {
      if (node.kind == Statement::Kind::With && is_loop(parameter.get())) return true;
    }
    const auto inside = [](const auto& statement) { return stores_loop(*statement); };
    return std::any_of(node.body.begin(), node.body.end(), inside) ||
           std::any_of(node.otherwise.begin(), node.otherwise.end(), inside);
  }

  Ast& ast_;
  const Lexer& lexer_;
  size_t work_ = 0;
};

}  // namespace

void resolve_scopes(Ast& ast, const Lexer& lexer) { Resolver(ast, lexer).run(); }

}  // namespace cortiq::text::jinja
