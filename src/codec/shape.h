#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/bytes.h"

namespace cortiq::codec {

/// The shape of a tensor: at most six 32-bit dimensions, outermost first (§3). All products are 64-bit and checked.
struct Shape {
  static constexpr size_t kMaxRank = 6;
  std::array<uint32_t, kMaxRank> dims{};
  uint8_t rank = 0;

  Shape() = default;
  Shape(std::initializer_list<uint32_t> sizes) {
    for (const uint32_t size : sizes) dims[rank++] = size;
  }

  /// Product of the dimensions (1 for rank 0); Bounds if it does not fit 64 bits.
  uint64_t elements() const {
    uint64_t product = 1;
    for (uint8_t i = 0; i < rank; ++i) product = checked_multiply(product, dims[i], "number of elements");
    return product;
  }
  /// A tensor of any rank seen as a matrix: the first dimension by all others; one row for rank 0 and 1.
  uint64_t rows() const { return rank >= 2 ? dims[0] : 1; }
  uint64_t cols() const { return rows() == 0 ? 0 : elements() / rows(); }
  bool operator==(const Shape& other) const { return rank == other.rank && dims == other.dims; }
  /// "[3, 4]"
  std::string text() const {
    std::string out = "[";
    for (uint8_t i = 0; i < rank; ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
    return out + "]";
  }
};

}  // namespace cortiq::codec
