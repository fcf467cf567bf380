#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace cortiq {

/// A read-only view of bytes that belong to somebody else. Every access that could leave the view throws Bounds, so
/// overflow arithmetic is written here and nowhere else. Integers and floats are little-endian, as the machine is.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  explicit Bytes(std::string_view text) : Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size()) {}
  Bytes(std::span<const uint8_t> bytes) : Bytes(bytes.data(), bytes.size()) {}

  const uint8_t* data() const noexcept { return data_; }
  uint64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  uint8_t operator[](uint64_t i) const noexcept { return data_[i]; }  ///< unchecked; i < size()
  std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }
  std::span<const uint8_t> span() const noexcept { return {data_, size_}; }

  /// True if [offset, offset + length) lies inside, without overflow.
  bool holds(uint64_t offset, uint64_t length) const noexcept { return offset <= size_ && length <= size_ - offset; }

  /// The part [offset, offset + length); Bounds if it does not lie inside. `what` names it in the error.
  Bytes slice(uint64_t offset, uint64_t length, std::string_view what = "range") const {
    if (!holds(offset, length)) {
      fail(ErrorKind::Bounds, "{} at {} of {} bytes ends outside the {} bytes there are", what, offset, length, size_);
    }
    return {data_ + offset, static_cast<size_t>(length)};
  }

  /// The little-endian value at an offset of any alignment; Bounds if it does not lie inside.
  template <class T>
  T read(uint64_t offset, std::string_view what = "value") const {
    static_assert(std::is_trivially_copyable_v<T>);
    const Bytes part = slice(offset, sizeof(T), what);
    T value;
    std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

/// a·b and a+b in 64 bits; Bounds, naming `what`, if the result does not fit.
inline uint64_t checked_multiply(uint64_t a, uint64_t b, std::string_view what = "size") {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail(ErrorKind::Bounds, "{}: {} x {} does not fit 64 bits", what, a, b);
  return result;
}
inline uint64_t checked_add(uint64_t a, uint64_t b, std::string_view what = "size") {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) fail(ErrorKind::Bounds, "{}: {} + {} does not fit 64 bits", what, a, b);
  return result;
}

/// The smallest multiple of `alignment` that is not below `value`.
inline uint64_t align_up(uint64_t value, uint64_t alignment) {
  return checked_add(value, alignment - 1, "aligned offset") / alignment * alignment;
}

}  // namespace cortiq
