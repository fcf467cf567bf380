#include "skills/defrag.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cmf/tensor_name.h"
#include "codec/quant.h"
#include "engine/weights.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

bool restricts(const std::vector<uint8_t>& row) { return std::find(row.begin(), row.end(), 0) != row.end(); }

// The keep-set of a mask that may be baked; refuses what a smaller FFN cannot express.
KeepSet keep_set(const cmf::Mask& mask, const cmf::Arch& arch) {
  const auto refuse = [&](const std::string& why) {
    fail(ErrorKind::Unsupported, "mask '{}' cannot be baked: {}", printable(mask.name), why);
  };
  for (const auto& row : mask.heads) {
    if (restricts(row)) refuse("it switches attention heads off, and heads cannot be cut");
  }
  if (restricts(mask.gates)) refuse("it closes whole layers, and layers cannot be cut");
  for (const auto& row : mask.experts) {
    if (restricts(row)) refuse("it restricts experts; cortiq moe-defrag cuts those");
  }
  KeepSet keep(arch.num_layers);
  for (size_t visit = 0; visit < mask.ffn.size(); ++visit) {
    const uint64_t layer = visit % arch.num_layers;
    if (visit >= arch.num_layers && mask.ffn[visit] != mask.ffn[layer]) {
      refuse(fmt::format("layer {} keeps other neurons in another pass", layer));
    }
    if (visit >= arch.num_layers) continue;
    for (size_t i = 0; i < mask.ffn[visit].size(); ++i) {
      if (mask.ffn[visit][i] != 0) keep[layer].push_back(static_cast<uint32_t>(i));
    }
    if (keep[layer].empty()) refuse(fmt::format("layer {} keeps no neuron", layer));
    if (keep[layer].size() == mask.ffn[visit].size()) keep[layer].clear();
  }
  return keep;
}

}  // namespace

const cmf::Mask& find_mask(const cmf::FileSet& set, const std::string& name) {
  std::string names;
  for (const auto& mask : set.first().masks().masks) {
    if (mask.name == name) return mask;
    names += (names.empty() ? "" : ", ") + printable(mask.name, 60);
  }
  fail(ErrorKind::Usage, "{}: no mask '{}'; there {}", set.first().path(), printable(name, 60),
       names.empty() ? "are none" : "are: " + names);
}

std::optional<CutTensor> plan_cut(std::string_view rest, codec::Dtype dtype, const codec::Shape& shape,
                                  const std::vector<uint32_t>& keep) {
  const auto count = static_cast<uint32_t>(keep.size());
  if (rest == "mlp.gate_proj.weight" || rest == "mlp.up_proj.weight" || rest == "mlp.gate_proj.bias" ||
      rest == "mlp.up_proj.bias") {
    codec::Shape cut = shape;
    cut.dims[0] = count;
    return CutTensor{dtype, cut, CutTensor::Axis::Rows};
  }
  if (rest != "mlp.down_proj.weight") return std::nullopt;
  const codec::Shape cut{shape.dims[0], count};
  codec::Quant quant;
  quant.dtype = dtype;
  const codec::Dtype fitting = codec::of(dtype).refuses(cut) ? codec::choose(quant, cut).dtype : dtype;
  return CutTensor{fitting, cut, CutTensor::Axis::Columns};
}

std::vector<float> gather(const std::vector<float>& values, const codec::Shape& shape, CutTensor::Axis axis,
                          const std::vector<uint32_t>& keep) {
  const uint64_t rows = shape.rank >= 2 ? shape.dims[0] : shape.elements();
  const uint64_t cols = rows == 0 ? 0 : shape.elements() / rows;
  std::vector<float> cut;
  if (axis == CutTensor::Axis::Rows) {
    cut.reserve(keep.size() * cols);
    for (const uint32_t row : keep) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * cols);
      cut.insert(cut.end(), begin, begin + static_cast<std::ptrdiff_t>(cols));
    }
  } else {
    cut.reserve(rows * keep.size());
    for (uint64_t row = 0; row < rows; ++row) {
      for (const uint32_t col : keep) cut.push_back(values[row * cols + col]);
    }
  }
  return cut;
}

DefragReport defrag(const cmf::FileSet& set, const std::string& task, const std::string& output, ThreadPool& pool,
                    Progress& progress, const Cancellation& cancel) {
  const cmf::Arch& arch = set.header().arch;
  const KeepSet keep = keep_set(find_mask(set, task), arch);
  DefragReport report;
  std::vector<OutputTensor> tensors;
  uint64_t skill_tensors = 0, live = 0, most = 0;
  std::vector<uint64_t> width(arch.num_layers, 0);
  for (const cmf::Tensor& tensor : set.tensors()) {
    report.bytes_before += tensor.nbytes;
    if (tensor.name.starts_with("skill.")) {
      ++skill_tensors;
      continue;
    }
    const auto place = cmf::layer_name(tensor.name, keep.size());
    if (!place) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    const auto& [layer, rest] = *place;
    if (rest == "mlp.gate_proj.weight") width[layer] = tensor.shape.rows();
    if (keep[layer].empty()) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    // Masks have the nominal width; a layer that is narrower already has fewer neurons than bits.
    std::vector<uint32_t> here = keep[layer];
    if (rest.starts_with("mlp.")) {
      const uint64_t neurons = rest == "mlp.down_proj.weight" ? tensor.shape.cols() : tensor.shape.dims[0];
      while (!here.empty() && here.back() >= neurons) here.pop_back();
      if (here.empty())
        fail(ErrorKind::Unsupported, "mask '{}' cannot be baked: layer {} keeps no neuron", printable(task), layer);
    }
    const auto cut = plan_cut(rest, tensor.dtype, tensor.shape, here);
    if (!cut) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    if (rest == "mlp.gate_proj.weight") width[layer] = here.size();
    tensors.push_back({{std::string(tensor.name), cut->dtype, cut->shape}, nullptr, [&set, &tensor, &pool, cut, here] {
                         const std::vector<float> values =
                             gather(engine::decode_all(set, tensor), tensor.shape, cut->axis, here);
                         return codec::of(cut->dtype).encode(values, cut->shape, {}, pool);
                       }});
  }
  uint64_t dense_layers = 0;
  for (const uint64_t one : width) {
    live += one;
    most = std::max(most, one);
    dense_layers += one > 0 ? 1 : 0;
  }
  if (dense_layers == 0) fail(ErrorKind::Unsupported, "{}: no dense FFN layer to cut", set.first().path());
  if (skill_tensors > 0 || !set.header().skills.empty()) {
    report.warnings.push_back(fmt::format("the {} skills of the file are left out: they were made for the whole width",
                                          set.header().skills.size()));
  }
  report.kept_per_layer = width;
  const uint64_t whole = dense_layers * arch.intermediate_size;
  report.pruned_ratio = std::round((1 - static_cast<double>(live) / static_cast<double>(whole)) * 1e4) / 1e4;

  cmf::Contents contents = contents_of(set);
  contents.masks.clear();
  contents.header.erase("skills");
  contents.header["arch"]["intermediate_size"] = most;
  contents.header["provenance"]["defrag"] = {{"source_skill", task},
                                             {"pre_intermediate", arch.intermediate_size},
                                             {"post_intermediate_max", most},
                                             {"kept_per_layer", width},
                                             {"pruned_ratio", report.pruned_ratio}};
  report.bytes_after = write_model(set, output, std::move(contents), std::move(tensors), progress, cancel);
  return report;
}

}  // namespace cortiq::skills
