#include "convert/source.h"

#include <algorithm>

namespace cortiq::convert {

uint64_t SourceTensor::elements() const noexcept {
  uint64_t product = 1;  // cannot wrap: a source checks its shapes when it is opened
  for (const uint64_t size : shape) product *= size;
  return product;
}

std::string SourceTensor::shape_text() const {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == 8) return out + fmt::format(", … {} dimensions]", shape.size());
    out += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return out + "]";
}

const SourceTensor* Source::find(std::string_view name) const noexcept {
  const auto all = tensors();
  const auto at =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const SourceTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

const Source& Checkpoint::weights() {
  if (!source) source = open_weights(path, *files);
  return *source;
}

}  // namespace cortiq::convert
