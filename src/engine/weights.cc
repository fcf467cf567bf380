#include "engine/weights.h"

#include "base/error.h"

namespace cortiq::engine {

std::vector<float> decode_all(const cmf::FileSet& set, const cmf::Tensor& tensor) {
  std::vector<float> values(tensor.shape.elements());
  cmf::decode_rows(set, tensor, 0, tensor.shape.rows(), values.data());
  return values;
}

const cmf::Tensor& WeightTable::demand(std::string_view name) const {
  const cmf::Tensor* tensor = set_->find(name);
  if (tensor == nullptr) {
    fail(ErrorKind::Parse, "{}: tensor '{}' is missing", set_->first().path(), printable(name));
  }
  if (tensor->dtype == codec::Dtype::U8) {
    fail(ErrorKind::Parse, "{}: tensor '{}' holds bytes (u8), weights are expected", set_->first().path(),
         printable(name));
  }
  return *tensor;
}

WeightRef WeightTable::add_matrix(const cmf::Tensor& tensor) {
  const auto known = matrix_slots_.find(tensor.name);
  if (known != matrix_slots_.end()) return {known->second};
  const auto slot = static_cast<uint32_t>(matrices_.size());
  matrices_.emplace_back(tensor.dtype, tensor.shape.rows(), tensor.shape.cols(), set_->payload(tensor));
  matrix_names_.push_back(tensor.name);
  matrix_slots_.emplace(tensor.name, slot);
  return {slot};
}

WeightRef WeightTable::matrix(std::string_view name, uint64_t rows, uint64_t cols) {
  const cmf::Tensor& tensor = demand(name);
  if (tensor.shape.rank != 2 || tensor.shape.rows() != rows || tensor.shape.cols() != cols) {
    fail(ErrorKind::Parse, "{}: tensor '{}' has shape {}, expected [{}, {}]", set_->first().path(), printable(name),
         tensor.shape.text(), rows, cols);
  }
  return add_matrix(tensor);
}

WeightRef WeightTable::matrix_of_width(std::string_view name, uint64_t cols) {
  const cmf::Tensor& tensor = demand(name);
  if (tensor.shape.rank != 2 || tensor.shape.rows() == 0 || tensor.shape.cols() != cols) {
    fail(ErrorKind::Parse, "{}: tensor '{}' has shape {}, expected [n, {}]", set_->first().path(), printable(name),
         tensor.shape.text(), cols);
  }
  return add_matrix(tensor);
}

VectorRef WeightTable::vector(std::string_view name, uint64_t size) {
  const cmf::Tensor& tensor = demand(name);
  if (tensor.shape.rank == 0 || tensor.shape.elements() != size) {
    fail(ErrorKind::Parse, "{}: tensor '{}' has shape {}, expected {} elements", set_->first().path(), printable(name),
         tensor.shape.text(), size);
  }
  const auto known = vector_slots_.find(tensor.name);
  if (known != vector_slots_.end()) return {known->second};
  const auto slot = static_cast<uint32_t>(vectors_.size());
  vectors_.push_back(decode_all(*set_, tensor));
  vector_slots_.emplace(tensor.name, slot);
  return {slot};
}

VectorRef WeightTable::optional_vector(std::string_view name, uint64_t size) {
  return has(name) ? vector(name, size) : VectorRef{};
}

WeightRef WeightTable::find_matrix(std::string_view name) const noexcept {
  const auto found = matrix_slots_.find(name);
  return found == matrix_slots_.end() ? WeightRef{} : WeightRef{found->second};
}

VectorRef WeightTable::find_vector(std::string_view name) const noexcept {
  const auto found = vector_slots_.find(name);
  return found == vector_slots_.end() ? VectorRef{} : VectorRef{found->second};
}

}  // namespace cortiq::engine
