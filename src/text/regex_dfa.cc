#include "text/regex_dfa.h"

#include <algorithm>
#include <map>

#include "text/regex_tree.h"

namespace cortiq::text {
namespace {

using Kind = RegexTree::Kind;
using Test = RegexTree::Test;

constexpr size_t kMaxInstructions = 3000;
constexpr size_t kMaxEntries = size_t{1} << 18;
constexpr size_t kMaxSets = 64;

struct Instruction {
  enum class Op : uint8_t { Take, Split, Assert, Match } op = Op::Match;
  Test test = Test::Ahead;
  uint32_t set = 0;              // Take, Assert
  uint32_t next = 0, other = 0;  // Split prefers next
};

using Op = Instruction::Op;
struct TooLarge {};

// The tree as a program for a backtracking machine, compiled backwards: each part knows what follows it.
class Compiler {
 public:
  explicit Compiler(const RegexTree& tree) : tree_(tree) {}

  std::vector<Instruction> program;

  uint32_t compile(uint32_t index, uint32_t follow) {
    const RegexTree::Node& node = tree_.nodes[index];
    switch (node.kind) {
      case Kind::Empty:
        return follow;
      case Kind::Set:
        return add({Op::Take, {}, node.set, follow, 0});
      case Kind::Assert:
        return add({Op::Assert, node.test, node.set, follow, 0});
      case Kind::Concat:
        for (size_t i = node.children.size(); i-- > 0;) follow = compile(node.children[i], follow);
        return follow;
      case Kind::Alternate: {
        uint32_t entry = compile(node.children.back(), follow);
        for (size_t i = node.children.size() - 1; i-- > 0;) {
          const uint32_t first = compile(node.children[i], follow);
          entry = add({Op::Split, {}, 0, first, entry});
        }
        return entry;
      }
      case Kind::Repeat:
        return repeat(node, follow);
    }
    return follow;
  }

  uint32_t add(Instruction instruction) {
    if (program.size() >= kMaxInstructions) throw TooLarge{};
    program.push_back(instruction);
    return static_cast<uint32_t>(program.size() - 1);
  }

 private:
  uint32_t split(const RegexTree::Node& node, uint32_t body, uint32_t follow) {
    return node.greedy ? add({Op::Split, {}, 0, body, follow}) : add({Op::Split, {}, 0, follow, body});
  }

  uint32_t repeat(const RegexTree::Node& node, uint32_t follow) {
    uint32_t entry = follow;
    if (node.max == RegexTree::kUnlimited) {
      const uint32_t loop = split(node, 0, follow);
      const uint32_t body = compile(node.children[0], loop);
      (node.greedy ? program[loop].next : program[loop].other) = body;
      entry = loop;
    } else {
      // x{2,4} = xx(x(x)?)?
      for (uint32_t i = node.min; i < node.max; ++i) entry = split(node, compile(node.children[0], entry), follow);
    }
    for (uint32_t i = 0; i < node.min; ++i) entry = compile(node.children[0], entry);
    return entry;
  }

  const RegexTree& tree_;
};

// What an assertion can see of a neighbouring character.
struct Class {
  uint64_t sets = 0;
  bool newline = false, none = false;
};

bool holds(const Instruction& test, const Class& before, const Class& after) {
  const auto in = [&](const Class& c) { return !c.none && (c.sets >> test.set & 1) != 0; };
  switch (test.test) {
    case Test::Ahead:
      return in(after);
    case Test::NotAhead:
      return !in(after);
    case Test::Behind:
      return in(before);
    case Test::NotBehind:
      return !in(before);
    // Oniguruma: no empty last line after a final newline, neither begun by ^ nor ended by $.
    case Test::LineBegin:
      return before.none || (before.newline && !after.none);
    case Test::LineEnd:
      return after.newline || (after.none && (before.none || !before.newline));
    case Test::TextBegin:
      return before.none;
    case Test::TextEnd:
      return after.none;
    case Test::Word:
      return in(before) != in(after);
    case Test::NotWord:
      return in(before) == in(after);
  }
  return false;
}

bool looks_back(Test test) { return test != Test::Ahead && test != Test::NotAhead && test != Test::TextEnd; }

// Steps from a state over a class: the threads in order of preference, and whether one matched before the step.
class Stepper {
 public:
  Stepper(const std::vector<Instruction>& program, const std::vector<Class>& classes)
      : program_(program), classes_(classes), seen_(program.size()), listed_(program.size()) {}

  bool step(const std::vector<uint32_t>& threads, uint32_t before, uint32_t after, std::vector<uint32_t>& out) {
    out.clear();
    ++round_;
    for (const uint32_t thread : threads) {
      stack_ = {thread};
      while (!stack_.empty()) {
        const uint32_t at = stack_.back();
        stack_.pop_back();
        if (seen_[at] == round_) continue;
        seen_[at] = round_;
        const Instruction& one = program_[at];
        switch (one.op) {
          case Op::Match:
            return true;  // whatever is less preferred is dropped
          case Op::Split:
            stack_.push_back(one.other);
            stack_.push_back(one.next);
            break;
          case Op::Assert:
            if (holds(one, classes_[before], classes_[after])) stack_.push_back(one.next);
            break;
          case Op::Take:
            if (!classes_[after].none && (classes_[after].sets >> one.set & 1) != 0 && listed_[one.next] != round_) {
              listed_[one.next] = round_;
              out.push_back(one.next);
            }
            break;
        }
      }
    }
    return false;
  }

 private:
  const std::vector<Instruction>& program_;
  const std::vector<Class>& classes_;
  std::vector<uint32_t> seen_, listed_, stack_;
  uint32_t round_ = 0;
};

}  // namespace

std::optional<Dfa> Dfa::build(const RegexTree& tree) {
  static const CodeSet newline = {{'\n', '\n'}};
  if (tree.sets.size() >= kMaxSets) return std::nullopt;
  std::vector<const CodeSet*> sets;
  for (const CodeSet& set : tree.sets) sets.push_back(&set);
  sets.push_back(&newline);

  Dfa dfa;
  std::vector<Class> classes;
  std::map<uint64_t, uint8_t> numbers;
  std::vector<CodeSegment<uint8_t>> segments;
  for (const auto& [first, mask] : membership(sets)) {
    const auto [entry, fresh] = numbers.try_emplace(mask, static_cast<uint8_t>(numbers.size()));
    if (fresh) classes.push_back({mask, (mask >> tree.sets.size() & 1) != 0, false});
    if (classes.size() > 200) return std::nullopt;
    segments.push_back({first, entry->second});
  }
  dfa.classes_ = CodeMap<uint8_t>(segments);
  for (char32_t c = 0; c < 128; ++c) dfa.ascii_[c] = dfa.classes_[c];
  dfa.edge_ = static_cast<uint32_t>(classes.size());
  dfa.stride_ = dfa.edge_ + 1;
  classes.push_back({0, false, true});

  try {
    Compiler compiler(tree);
    const uint32_t match = compiler.add({});
    const uint32_t entry = compiler.compile(tree.root, match);
    for (const Instruction& one : compiler.program) {
      dfa.looks_back_ = dfa.looks_back_ || (one.op == Op::Assert && looks_back(one.test));
    }
    Stepper stepper(compiler.program, classes);
    // A state: the class before it where that matters, and its threads. State 0 has none and is dead.
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<std::vector<uint32_t>> states;
    const auto number_of = [&](uint32_t before, const std::vector<uint32_t>& threads) -> uint32_t {
      if (threads.empty()) return kDead;
      std::vector<uint32_t> key = {dfa.looks_back_ ? before : dfa.edge_};
      key.insert(key.end(), threads.begin(), threads.end());
      const auto [found, fresh] = known.try_emplace(key, static_cast<uint32_t>(states.size()));
      if (fresh) {
        if (states.size() * dfa.stride_ > kMaxEntries) throw TooLarge{};
        states.push_back(std::move(key));
      }
      return found->second;
    };
    states.push_back({dfa.edge_});
    for (uint32_t before = 0; before < dfa.stride_; ++before) dfa.starts_.push_back(number_of(before, {entry}));
    std::vector<uint32_t> threads, next;
    size_t work = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      const uint32_t before = states[i][0];
      threads.assign(states[i].begin() + 1, states[i].end());
      work += threads.size() * dfa.stride_;
      if (work > kMaxEntries * 16) throw TooLarge{};
      for (uint32_t after = 0; after < dfa.stride_; ++after) {
        const bool matched = stepper.step(threads, before, after, next);
        const uint32_t target = after == dfa.edge_ ? kDead : number_of(after, next);
        dfa.table_.push_back(target << 1 | (matched ? kMatched : 0));
      }
    }
  } catch (const TooLarge&) {
    return std::nullopt;
  }
  return dfa;
}

}  // namespace cortiq::text
