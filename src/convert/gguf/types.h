#pragma once
#include <cstdint>
#include <string>
#include <string_view>

// The number formats of GGUF tensors that can be read.
namespace cortiq::convert::gguf {

struct Type {
  uint32_t id;
  std::string_view name;  ///< as their tools spell it: "Q4_K"
  uint32_t block, bytes;  ///< elements of a block and its size; a row is a whole number of blocks
  /// One block as f32. Every product before the last operation is exact, so each value is rounded at most once.
  void (*decode)(const uint8_t* block, float* out);
};

/// nullptr for a type that cannot be read.
const Type* find_type(uint32_t id) noexcept;
const Type* find_type(std::string_view name) noexcept;

/// What an id means, for refusals: "IQ2_XXS", "Q4_2 (removed)", "unknown".
std::string_view name_of_type(uint32_t id) noexcept;

}  // namespace cortiq::convert::gguf
