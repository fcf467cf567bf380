#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmf/file.h"
#include "kernels/matrix.h"

namespace cortiq::engine {

/// A weight matrix by name, not by content: which bytes it means is said by a Binding.
struct WeightRef {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t slot = kNone;
  explicit operator bool() const noexcept { return slot != kNone; }
};

/// The same for what is used as f32 numbers and not multiplied: norms, biases, convolution taps.
struct VectorRef {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t slot = kNone;
  explicit operator bool() const noexcept { return slot != kNone; }
};

/// The backbone's weights, one slot a name: matrices as views into the mapped file, vectors decoded to f32 once.
class WeightTable {
 public:
  explicit WeightTable(std::shared_ptr<const cmf::FileSet> set) : set_(std::move(set)) {}

  const cmf::FileSet& set() const noexcept { return *set_; }
  bool has(std::string_view name) const noexcept { return set_->find(name) != nullptr; }

  /// The matrix of this name; Parse, naming the tensor and both shapes, unless it is [rows, cols].
  WeightRef matrix(std::string_view name, uint64_t rows, uint64_t cols);
  /// A matrix whose row count decides something; only cols is demanded.
  WeightRef matrix_of_width(std::string_view name, uint64_t cols);
  /// The vector of this name; Parse unless it has exactly `size` elements (of any rank).
  VectorRef vector(std::string_view name, uint64_t size);
  /// An empty reference if there is no such tensor.
  VectorRef optional_vector(std::string_view name, uint64_t size);

  std::span<const kernels::Matrix> matrices() const noexcept { return matrices_; }
  std::span<const std::vector<float>> vectors() const noexcept { return vectors_; }
  const kernels::Matrix& matrix(WeightRef ref) const noexcept { return matrices_[ref.slot]; }
  std::string_view name(WeightRef ref) const noexcept { return matrix_names_[ref.slot]; }

  /// Slots by tensor name; empty references if the engine does not use a tensor of this name that way.
  WeightRef find_matrix(std::string_view name) const noexcept;
  VectorRef find_vector(std::string_view name) const noexcept;

 private:
  const cmf::Tensor& demand(std::string_view name) const;
  WeightRef add_matrix(const cmf::Tensor& tensor);

  std::shared_ptr<const cmf::FileSet> set_;
  std::vector<kernels::Matrix> matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<std::string_view> matrix_names_;
  std::map<std::string_view, uint32_t> matrix_slots_, vector_slots_;  // names are views into the mapped file
};

/// All values of a tensor as f32.
std::vector<float> decode_all(const cmf::FileSet& set, const cmf::Tensor& tensor);

}  // namespace cortiq::engine
