#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/big_int.h"
#include "text/jinja/failure.h"

namespace cortiq::text::jinja {

class Heap;
class Object;
class Runtime;
struct Args;

enum class Kind : uint8_t {
  Missing,  // no value at all: an unset variable, an absent argument; never visible to a template
  None,
  Bool,
  Int,
  Float,
  BigInt,  // from here on the payload is an Object
  Undefined,
  String,
  Bytes,
  List,
  Tuple,
  Dict,
  View,  // dict.keys(), dict.values(), dict.items()
  Range,
  Iterator,  // what generators are: consumed once
  Namespace,
  Callable,    // functions, methods, macros, loops, and other objects with attributes of their own
  Activation,  // the variables of a running function; never visible to a template
};

/// A Python value. Copies share the object behind it; only namespaces, iterators, loops and lists (pop) can change, as
/// the sandbox wants it. Belongs to the Heap of one rendering and must not outlive it.
class Value {
 public:
  Value() noexcept : kind_(Kind::Missing) { payload_.integer = 0; }
  Value(const Value& other) noexcept;
  Value(Value&& other) noexcept : payload_(other.payload_), kind_(other.kind_) { other.kind_ = Kind::Missing; }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Value();

  static Value none() noexcept { return Value(Kind::None); }
  static Value boolean(bool value) noexcept {
    Value result(Kind::Bool);
    result.payload_.integer = value;
    return result;
  }
  static Value integer(int64_t value) noexcept {
    Value result(Kind::Int);
    result.payload_.integer = value;
    return result;
  }
  static Value real(double value) noexcept {
    Value result(Kind::Float);
    result.payload_.real = value;
    return result;
  }
  /// Shares `object`.
  static Value of(Object* object) noexcept;

  Kind kind() const noexcept { return kind_; }
  bool is(Kind kind) const noexcept { return kind_ == kind; }
  bool missing() const noexcept { return kind_ == Kind::Missing; }
  bool none_or_missing() const noexcept { return kind_ <= Kind::None; }
  bool boxed() const noexcept { return kind_ >= Kind::BigInt; }
  bool is_integer() const noexcept { return kind_ == Kind::Int || kind_ == Kind::Bool || kind_ == Kind::BigInt; }
  bool is_number() const noexcept { return is_integer() || kind_ == Kind::Float; }

  int64_t small() const noexcept { return payload_.integer; }  // Bool and Int
  double real() const noexcept { return payload_.real; }       // Float
  Object* object() const noexcept { return payload_.object; }
  template <class T>
  T& as() const noexcept {
    return *static_cast<T*>(payload_.object);
  }

 private:
  explicit Value(Kind kind) noexcept : kind_(kind) { payload_.integer = 0; }

  union {
    int64_t integer;
    double real;
    Object* object;
  } payload_;
  Kind kind_;
};

using Values = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

/// Something on the heap, counted by its Values.
class Object {
 public:
  explicit Object(Kind type) noexcept : kind(type) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// Lets go of every Value held, so that cycles can be taken apart at the end.
  virtual void clear() noexcept {}
  /// Bytes beyond the object itself.
  virtual size_t extra() const noexcept { return 0; }

  const Kind kind;

 private:
  friend class Heap;
  friend class Value;
  void release() noexcept;

  uint32_t count_ = 0;
  size_t cost_ = 0;
  Heap* heap_ = nullptr;
  Object* previous_ = nullptr;
  Object* next_ = nullptr;
};

/// Owns the objects of one rendering and bounds what is alive at any moment. Objects die with their last Value, one
/// after the other (never recursively, however deep they are nested); what cycles keep alive dies with the heap.
class Heap {
 public:
  explicit Heap(size_t limit) noexcept : limit_(limit) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  template <class T, class... Args>
  Value make(Args&&... args) {
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    adopt(*object, sizeof(T));
    return Value::of(object.release());
  }

  /// Fails unless `bytes` more may live. To be asked before something large is built.
  void demand(size_t bytes) const;
  void charge(size_t bytes);
  void discharge(size_t bytes) noexcept { live_ -= bytes; }

 private:
  friend class Object;
  void adopt(Object& object, size_t size);
  void dispose(Object& object) noexcept;
  void unlink(Object& object) noexcept;

  size_t limit_;
  size_t live_ = 0;
  Object* first_ = nullptr;
  Object* dead_ = nullptr;
  bool draining_ = false;
};

inline Value::Value(const Value& other) noexcept : payload_(other.payload_), kind_(other.kind_) {
  if (boxed()) ++payload_.object->count_;
}
inline Value::~Value() {
  if (boxed()) payload_.object->release();
}
inline Value Value::of(Object* object) noexcept {
  Value result(object->kind);
  result.payload_.object = object;
  ++object->count_;
  return result;
}
inline void Object::release() noexcept {
  if (--count_ == 0) heap_->dispose(*this);
}

struct BigIntObject : Object {
  explicit BigIntObject(BigInt value_) : Object(Kind::BigInt), value(std::move(value_)) {}
  size_t extra() const noexcept override { return value.bytes(); }
  const BigInt value;
};

/// jinja2's Undefined: prints as nothing, is false and empty, fails at everything else with its message.
struct UndefinedObject : Object {
  explicit UndefinedObject(std::string message_) : Object(Kind::Undefined), message(std::move(message_)) {}
  size_t extra() const noexcept override { return message.capacity(); }
  const std::string message;
};

/// Text in UTF-8. `markup` marks it as HTML that is safe already: text joined to it is escaped.
struct StringObject : Object {
  StringObject(std::string text_, bool markup_)
      : Object(Kind::String), text(std::move(text_)), markup(markup_), length_(std::string::npos) {}
  size_t extra() const noexcept override { return text.capacity() > 15 ? text.capacity() : 0; }
  /// Length in code points.
  size_t length() const noexcept;
  bool ascii() const noexcept { return length() == text.size(); }

  const std::string text;
  const bool markup;

 private:
  mutable size_t length_;
};

struct BytesObject : Object {
  explicit BytesObject(std::string bytes_) : Object(Kind::Bytes), bytes(std::move(bytes_)) {}
  size_t extra() const noexcept override { return bytes.capacity(); }
  const std::string bytes;
};

/// List and tuple. `names`: the fields of a named tuple, or none.
struct SequenceObject : Object {
  SequenceObject(Kind type, Values items_, const char* const* names_ = nullptr)
      : Object(type), items(std::move(items_)), names(names_) {}
  void clear() noexcept override { items.clear(); }
  size_t extra() const noexcept override { return items.capacity() * sizeof(Value); }
  Values items;
  const char* const* names;
};

struct DictObject : Object {
  explicit DictObject(Entries entries_) : Object(Kind::Dict), entries(std::move(entries_)) {}
  void clear() noexcept override {
    entries.clear();
    index.clear();
  }
  size_t extra() const noexcept override { return entries.capacity() * (sizeof(Entries::value_type) + 40); }
  Entries entries;                                // keys are unique
  std::unordered_multimap<size_t, size_t> index;  // hash → entry; filled when there are many
};

struct ViewObject : Object {
  enum class Part : uint8_t { Key, Item, Mapped };
  ViewObject(Value dict_, Part part_) : Object(Kind::View), dict(std::move(dict_)), part(part_) {}
  void clear() noexcept override { dict = Value(); }
  const Entries& entries() const noexcept { return dict.as<DictObject>().entries; }
  Value dict;
  const Part part;
};

struct RangeObject : Object {
  RangeObject(int64_t start_, int64_t stop_, int64_t step_, int64_t length_)
      : Object(Kind::Range), start(start_), stop(stop_), step(step_), length(length_) {}
  const int64_t start, stop, step, length;
};

struct IteratorObject : Object {
  explicit IteratorObject(const char* type_) : Object(Kind::Iterator), type(type_) {}
  /// The next value, or a missing one at the end.
  virtual Value next(Runtime& runtime) = 0;
  const char* const type;
};

struct NamespaceObject : Object {
  explicit NamespaceObject(Entries attributes_) : Object(Kind::Namespace), attributes(std::move(attributes_)) {}
  void clear() noexcept override { attributes.clear(); }
  Entries attributes;  // keys are strings
};

/// Whatever can be called, and objects with attributes of their own.
struct CallableObject : Object {
  CallableObject() : Object(Kind::Callable) {}
  virtual Value call(Runtime& runtime, Args& args) = 0;
  /// An attribute, or a missing value.
  virtual Value attribute(Runtime&, std::string_view) { return Value(); }
  virtual std::string repr() const = 0;
  virtual const char* type() const { return "function"; }
  virtual bool callable() const { return true; }
  /// What iter() gives, or a missing value if it cannot be iterated.
  virtual Value iterate(Runtime&) { return Value(); }
  virtual int64_t length(Runtime&) { return -1; }
};

/// Arguments of a call, filter or test.
struct Args {
  Values positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

}  // namespace cortiq::text::jinja
