#include "skills/rewrite.h"

#include <nlohmann/json.hpp>
#include <set>

#include "cmf/tensor_name.h"

namespace cortiq::skills {

OutputTensor copy_of(const cmf::Tensor& tensor) { return copy_of(tensor, std::string(tensor.name)); }

OutputTensor copy_of(const cmf::Tensor& tensor, std::string new_name) {
  return {{std::move(new_name), tensor.dtype, tensor.shape}, &tensor, {}};
}

uint64_t write_model(const cmf::FileSet& source, const std::string& output, cmf::Contents contents,
                     std::vector<OutputTensor> tensors, Progress& progress, const Cancellation& cancel,
                     FileSystem& files) {
  std::vector<cmf::Declaration> declarations;
  uint64_t total = 0;
  for (const auto& one : tensors) {
    declarations.push_back(one.declaration);
    if (one.copied != nullptr) total += one.copied->nbytes;
  }
  progress.begin("writing", total);
  cmf::Writer writer(files, output, std::move(contents), std::move(declarations));
  for (const auto& one : tensors) {
    cancel.check();
    progress.item(one.declaration.name);
    if (one.copied != nullptr) {
      writer.append(source, *one.copied, progress, cancel);
    } else {
      const std::vector<uint8_t> payload = one.made();
      writer.append(Bytes(payload.data(), payload.size()));
    }
  }
  const uint64_t size = writer.finish();
  progress.end();
  return size;
}

cmf::Contents contents_of(const cmf::FileSet& source) {
  cmf::Contents contents;
  contents.header = *source.header().json;
  contents.header.erase("shard");
  contents.tokenizer_json = std::string(source.first().tokenizer_json());
  const Bytes masks = source.first().masks_bytes();
  contents.masks.assign(masks.data(), masks.data() + masks.size());
  return contents;
}

std::vector<uint64_t> layers_in(const std::vector<std::string>& names) {
  std::set<uint64_t> layers;
  for (const auto& name : names) {
    if (const auto layer = cmf::layer_name(name)) layers.insert(layer->number);
  }
  return {layers.begin(), layers.end()};
}

}  // namespace cortiq::skills
