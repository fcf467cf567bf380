#pragma once
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace cortiq::text::jinja {

/// What one rendering may use. A hostile template ends here within a second and 64 MB; a chat of a million tokens needs
/// a hundredth of the steps and a fifth of the memory.
struct Limits {
  uint64_t steps = 10'000'000;
  size_t live_bytes = size_t{28} << 20;
  int depth = 1200;  // nested evaluations, each a few hundred bytes of stack
};

/// The services of one rendering: memory, budgets, the clock.
class Runtime {
 public:
  explicit Runtime(const std::optional<std::tm>& now) : heap(limits.live_bytes), steps_(limits.steps), now_(now) {}
  virtual ~Runtime() = default;

  /// Counts work: an evaluated node, a visited item, some dozen bytes moved.
  void step(uint64_t count = 1) {
    if (count > steps_) raise("the template runs too long (more than {} steps)", limits.steps);
    steps_ -= count;
  }
  /// Before `text` grows by `more` bytes.
  void grow(const std::string& text, size_t more) {
    step(1 + more / 64);
    if (text.size() + more > text.capacity()) heap.demand(2 * text.size() + more);
  }
  void append(std::string& text, std::string_view more) {
    grow(text, more.size());
    text += more;
  }

  Value string(std::string text, bool markup = false) {
    step(1 + text.size() / 64);
    return heap.make<StringObject>(std::move(text), markup);
  }
  Value list(Values items) { return heap.make<SequenceObject>(Kind::List, std::move(items)); }
  Value tuple(Values items) { return heap.make<SequenceObject>(Kind::Tuple, std::move(items)); }
  Value integer(BigInt value) {
    if (const auto small = value.small()) return Value::integer(*small);
    return heap.make<BigIntObject>(std::move(value));
  }
  /// A dict as Python builds one: a repeated key keeps its place and takes the later value.
  Value dict(Entries entries);
  Value undefined(std::string message) { return heap.make<UndefinedObject>(std::move(message)); }

  /// The clock, read once per rendering.
  const std::tm& now();

  virtual Value call_filter(const std::string& name, const Value& value, Args& args) = 0;
  virtual bool call_test(const std::string& name, const Value& value, Args& args) = 0;

  const Limits limits;
  Heap heap;
  int depth = 0;

 private:
  uint64_t steps_;
  std::optional<std::tm> now_;
};

/// One level of recursion.
class Nested {
 public:
  explicit Nested(Runtime& runtime) : runtime_(runtime) {
    if (runtime.depth >= runtime.limits.depth) raise("maximum recursion depth exceeded");
    ++runtime.depth;
    runtime.step();
  }
  ~Nested() { --runtime_.depth; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Runtime& runtime_;
};

/// Goes through whatever Python can iterate, an item a call.
class Cursor {
 public:
  /// Fails if the value is not iterable.
  Cursor(Runtime& runtime, Value source);
  /// The next item, or a missing value at the end.
  Value next();
  void clear() noexcept { source_ = Value(); }

 private:
  Runtime* runtime_;
  Value source_;
  size_t at_ = 0;
};

bool iterable(const Value& value) noexcept;
Values to_values(Runtime& runtime, const Value& source);

/// The arguments of a call matched to a signature, as Python does it. Names that begin with '/' are positional only.
class Bound {
 public:
  Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> names, size_t required = 0);
  const Value& operator[](size_t index) const { return values_[index]; }
  /// Given and not None.
  bool has(size_t index) const { return !values_[index].none_or_missing(); }
  bool given(size_t index) const { return !values_[index].missing(); }

  int64_t integer(size_t index, int64_t otherwise) const;
  bool truth(Runtime& runtime, size_t index, bool otherwise) const;
  /// Text of a string argument; anything else fails.
  std::string_view text(size_t index, std::string_view otherwise = {}) const;

 private:
  std::string_view function_;
  Value values_[6];
};

}  // namespace cortiq::text::jinja
