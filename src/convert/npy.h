#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file_system.h"

namespace cortiq::convert {

/// An array of numpy's .npy format, widened to f32: C order, '<f4', '<f8', '<f2', '|b1', '|u1', '<i4', '<i8'.
struct Npy {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

/// An array that is read piece by piece.
struct NpyView {
  std::vector<uint64_t> shape;
  std::string type;  ///< "<f4"
  Bytes data;
  uint64_t elements() const noexcept;
  void read(uint64_t first, uint64_t count, float* out) const;
};
NpyView view_npy(Bytes bytes, std::string_view what);

/// Parse or Bounds, naming `what`, for anything else than a complete array of those types.
Npy parse_npy(Bytes bytes, std::string_view what);
Npy read_npy(const std::string& path, FileSystem& files = FileSystem::real());

/// Writes f32 values, format version 1.0.
void write_npy(const std::string& path, std::span<const uint64_t> shape, std::span<const float> values,
               FileSystem& files = FileSystem::real());

}  // namespace cortiq::convert
