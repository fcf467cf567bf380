#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "convert/source.h"

namespace cortiq::convert {

/// Tensors without files: values come from a function of name and flat index.
class FakeSource final : public Source {
 public:
  using Value = std::function<float(const std::string& name, uint64_t index)>;

  explicit FakeSource(Value value = [](const std::string&, uint64_t) { return 0.0f; }) : value_(std::move(value)) {}

  void add(const std::string& name, std::vector<uint64_t> shape, const std::string& dtype = "F32") {
    SourceTensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.nbytes = tensor.elements() * (dtype == "F32" ? 4 : 2);
    tensors_.insert(std::upper_bound(tensors_.begin(), tensors_.end(), tensor,
                                     [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; }),
                    tensor);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const SourceTensor& one) { return one.name == name; });
  }

  std::span<const SourceTensor> tensors() const noexcept override { return tensors_; }
  void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t cols = tensor.cols();
    for (uint64_t i = 0; i < count * cols; ++i) out[i] = value_(tensor.name, first * cols + i);
  }
  bool readable(const SourceTensor& tensor) const override {
    return tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
  }
  uint64_t bytes() const noexcept override { return 0; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }

 private:
  Value value_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> warnings_;
};

/// A checkpoint made of a config's text and a source.
inline std::shared_ptr<Checkpoint> checkpoint_of(const Json& config, std::shared_ptr<const Source> source) {
  auto out = std::make_shared<Checkpoint>();
  out->path = "made/model";
  out->config_path = "config.json";
  out->config = config;
  out->source = std::move(source);
  return out;
}

}  // namespace cortiq::convert
