#include "convert/requant.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "cmf/file.h"
#include "cmf/sharded_writer.h"
#include "convert/dtypes.h"
#include "convert/encode.h"
#include "convert/read_values.h"

namespace cortiq::convert {
namespace {

// The tensors of a container as a source. `file` is the tensor's place in the set.
class CmfSource final : public Source {
 public:
  explicit CmfSource(std::shared_ptr<const cmf::FileSet> set) : set_(std::move(set)) {
    for (const cmf::Tensor& one : set_->tensors()) {
      SourceTensor tensor;
      tensor.name = one.name;
      tensor.dtype = codec::name(one.dtype);
      tensor.shape.assign(one.shape.dims.begin(), one.shape.dims.begin() + one.shape.rank);
      tensor.nbytes = one.nbytes;
      tensor.file = static_cast<uint32_t>(tensors_.size());
      tensors_.push_back(std::move(tensor));
    }
  }
  const cmf::Tensor& original(const SourceTensor& tensor) const { return set_->tensors()[tensor.file]; }
  std::span<const SourceTensor> tensors() const noexcept override { return tensors_; }
  void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const override {
    // Only matrices are re-encoded: their rows are the codec's rows.
    cmf::decode_rows(*set_, original(tensor), first, count, out);
  }
  uint64_t bytes() const noexcept override {
    uint64_t sum = 0;
    for (const auto& file : set_->files()) sum += file->size();
    return sum;
  }
  const std::vector<std::string>& warnings() const noexcept override { return none_; }

 private:
  std::shared_ptr<const cmf::FileSet> set_;
  std::vector<SourceTensor> tensors_;  // in the container's order, not by name
  std::vector<std::string> none_;
};

bool stays(const cmf::Tensor& tensor) {
  return tensor.dtype == codec::Dtype::U8 || tensor.shape.rank != 2 || tensor.shape.elements() < 32 ||
         kept_in_float(tensor.name);
}

std::vector<PlannedTensor> plan(const CmfSource& source, const ConvertOptions& options,
                                std::vector<std::string>& warnings) {
  ConvertOptions wish = options;
  if (options.quant.empty()) wish.quant = "q8";  // of no effect: only patterns are asked
  DtypeRules rules(wish);
  std::vector<PlannedTensor> out;
  for (const SourceTensor& from : source.tensors()) {
    const cmf::Tensor& original = source.original(from);
    PlannedTensor tensor;
    tensor.name = from.name;
    tensor.source = printable(from.name);
    tensor.shape = original.shape;
    tensor.recipe = {.source = &source, .tensor = &from};
    tensor.dtype = original.dtype;
    if (!stays(original)) {
      const bool named = rules.named(tensor.name);
      if (named || !options.quant.empty()) rules.apply(tensor);
    }
    out.push_back(std::move(tensor));
  }
  for (const std::string& pattern : rules.unused()) {
    warnings.push_back(fmt::format("--quant-for '{}' fits no tensor", printable(pattern, 80)));
  }
  return out;
}

cmf::Contents contents_of(const cmf::FileSet& set, const ConvertOptions& options) {
  cmf::Contents out;
  out.header = *set.header().json;
  out.header.erase("shard");
  out.header.erase("section_hashes");
  if (!options.quant.empty()) out.header["quant_type"] = codec::quant_label(codec::parse_quant(options.quant));
  out.tokenizer_json = set.first().tokenizer_json();
  const Bytes masks = set.first().masks_bytes();
  out.masks.assign(masks.data(), masks.data() + masks.size());
  return out;
}

}  // namespace

Summary requant(const Requant& what, const std::string& output, ThreadPool& pool, Progress& progress,
                const Cancellation& cancel, FileSystem& files) {
  const auto begin = std::chrono::steady_clock::now();
  const std::shared_ptr<const cmf::FileSet> set = cmf::FileSet::open(what.input, files);
  const CmfSource source(set);
  Summary out;
  const std::vector<PlannedTensor> tensors = plan(source, what.options, out.warnings);

  std::vector<cmf::Declaration> declarations;
  uint64_t total = 0;
  for (const PlannedTensor& one : tensors) {
    declarations.push_back({one.name, one.dtype, one.shape});
    total += one.recipe.tensor->nbytes;
  }
  cmf::ShardedWriter writer(files, output, contents_of(*set, what.options), std::move(declarations),
                            what.options.shard_max_gb > 0 ? static_cast<uint64_t>(what.options.shard_max_gb * 1e9) : 0);
  progress.begin("requantising", total);
  std::vector<float> values;
  for (const PlannedTensor& tensor : tensors) {
    cancel.check();
    const cmf::Tensor& original = source.original(*tensor.recipe.tensor);
    progress.item(tensor.name);
    if (tensor.dtype == original.dtype) {
      writer.append(*set, original, progress, cancel);
      continue;
    }
    values.resize(tensor.shape.elements());
    read_values(tensor.recipe, values, pool);
    set->advise(original, MappedFile::Advice::DontNeed);
    const auto [payload, dtype] = encode_planned(tensor, values, pool, out.warnings);
    writer.append(Bytes{std::span<const uint8_t>(payload)}, dtype);
    progress.advance(original.nbytes);
  }
  cancel.check();
  out.bytes = writer.finish();
  progress.end();
  out.outputs = writer.paths();
  out.output = out.outputs.front();
  out.tensors = tensors.size();
  out.source_bytes = source.bytes();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace cortiq::convert
