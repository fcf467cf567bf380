#include "convert/encode.h"

namespace cortiq::convert {

std::pair<std::vector<uint8_t>, codec::Dtype> encode_planned(const PlannedTensor& tensor, std::span<const float> values,
                                                             ThreadPool& pool, std::vector<std::string>& warnings) {
  const std::string context = tensor.source == tensor.name
                                  ? fmt::format("tensor '{}'", printable(tensor.name))
                                  : fmt::format("tensor '{}' (from '{}')", printable(tensor.name), tensor.source);
  const auto as = [&](codec::Dtype dtype) {
    return with_context(context, [&] { return codec::of(dtype).encode(values, tensor.shape, tensor.encode, pool); });
  };
  if (tensor.dtype != codec::Dtype::F16 || tensor.demanded) return {as(tensor.dtype), tensor.dtype};
  try {
    return {as(tensor.dtype), tensor.dtype};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Bounds) throw;
    warnings.push_back(fmt::format("{}; written as f32", error.what()));
  }
  return {as(codec::Dtype::F32), codec::Dtype::F32};
}

}  // namespace cortiq::convert
