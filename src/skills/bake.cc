#include "skills/bake.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_system.h"
#include "cmf/skill_tensors.h"
#include "cmf/tensor_name.h"
#include "convert/npy.h"
#include "engine/weights.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

// Overlays by backbone name, with their shapes checked against it.
std::map<std::string, std::string> overlay_files(const cmf::FileSet& base, const std::string& folder) {
  FileSystem& files = FileSystem::real();
  std::map<std::string, std::string> found;
  const std::string directory = join_path(folder, "tensors");
  if (!files.exists(directory)) return found;
  for (const std::string& file : files.list(directory)) {
    if (!file.ends_with(".npy")) continue;
    const std::string name = file.substr(0, file.size() - 4);
    if (base.find(name) == nullptr) {
      const std::string near = cmf::nearest_name(base.tensors(), name);
      fail(ErrorKind::Parse, "{}: '{}' replaces nothing in {}{}", directory, printable(name), base.first().path(),
           near.empty() ? "" : "; the nearest name is '" + printable(near) + "'");
    }
    found[name] = join_path(directory, file);
  }
  return found;
}

std::vector<float> overlay_values(const std::string& path, const codec::Shape& shape) {
  convert::Npy array = convert::read_npy(path);
  codec::Shape have;
  for (const uint64_t size : array.shape) {
    if (have.rank < codec::Shape::kMaxRank && size <= UINT32_MAX) have.dims[have.rank++] = static_cast<uint32_t>(size);
  }
  if (!(have == shape) || array.values.size() != shape.elements()) {
    fail(ErrorKind::Parse, "{}: its shape is not {}, the shape of the tensor it replaces", path, shape.text());
  }
  return std::move(array.values);
}

}  // namespace

KeepSet read_keep_set(const std::string& path, const cmf::Arch& arch) {
  const convert::Npy array = convert::read_npy(path);
  if (array.shape != std::vector<uint64_t>{arch.num_layers, arch.intermediate_size}) {
    fail(ErrorKind::Usage, "{}: expected the shape [{}, {}] (layers, neurons)", path, arch.num_layers,
         arch.intermediate_size);
  }
  KeepSet keep(arch.num_layers);
  for (uint64_t layer = 0; layer < arch.num_layers; ++layer) {
    for (uint64_t i = 0; i < arch.intermediate_size; ++i) {
      if (array.values[layer * arch.intermediate_size + i] != 0) keep[layer].push_back(static_cast<uint32_t>(i));
    }
    if (keep[layer].empty()) fail(ErrorKind::Unsupported, "{}: layer {} keeps no neuron", path, layer);
    if (keep[layer].size() == arch.intermediate_size) keep[layer].clear();
  }
  return keep;
}

BakeReport bake(const cmf::FileSet& base, const BakeOptions& options, const std::string& output, ThreadPool& pool,
                Progress& progress, const Cancellation& cancel) {
  const cmf::Arch& arch = base.header().arch;
  BakeReport report;
  std::map<std::string, Replacement> replaced;
  std::map<std::string, std::string> overlays;
  if (!options.donor.empty()) {
    ReplacementSet set = from_donor(base, options.donor, options.donor_options, pool, progress, cancel);
    report.warnings = set.warnings;
    for (auto& one : set.tensors) replaced.emplace(one.name, std::move(one));
  }
  std::string keep_file = options.keep;
  if (!options.overlays.empty()) {
    overlays = overlay_files(base, options.overlays);
    const std::string beside = join_path(options.overlays, "ffn_keep.npy");
    if (keep_file.empty() && FileSystem::real().exists(beside)) keep_file = beside;
  }
  KeepSet keep(arch.num_layers);
  if (!keep_file.empty()) keep = read_keep_set(keep_file, arch);
  if (replaced.empty() && overlays.empty() && keep_file.empty()) {
    fail(ErrorKind::Usage, "nothing to bake: give --donor, --overlays or --keep");
  }

  std::vector<OutputTensor> tensors;
  std::vector<uint64_t> width(arch.num_layers, 0);
  for (const cmf::Tensor& tensor : base.tensors()) {
    if (tensor.name.starts_with("skill.")) continue;
    const std::string name(tensor.name);
    const auto place = cmf::layer_name(tensor.name, keep.size());
    const uint64_t layer = place ? place->number : 0;
    std::optional<CutTensor> cut;
    if (place && !keep[layer].empty()) cut = plan_cut(place->rest, tensor.dtype, tensor.shape, keep[layer]);
    if (place && place->rest == "mlp.gate_proj.weight") width[layer] = cut ? keep[layer].size() : tensor.shape.rows();
    const auto donor = replaced.find(name);
    const auto overlay = overlays.find(name);
    if (donor == replaced.end() && overlay == overlays.end() && !cut) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    if (donor != replaced.end() || overlay != overlays.end()) ++report.replaced;
    const codec::Dtype dtype = cut ? cut->dtype : donor != replaced.end() ? donor->second.dtype : tensor.dtype;
    const codec::Shape shape = cut ? cut->shape : tensor.shape;
    tensors.push_back({{name, dtype, shape}, nullptr, [&, cut, dtype, shape, layer, donor, overlay] {
                         std::vector<float> values;
                         if (overlay != overlays.end()) {
                           values = overlay_values(overlay->second, tensor.shape);
                         } else if (donor == replaced.end()) {
                           values = engine::decode_all(base, tensor);
                         } else if (!cut) {
                           return donor->second.payload;
                         } else {
                           values.resize(tensor.shape.elements());
                           const std::vector<uint8_t>& payload = donor->second.payload;
                           codec::of(donor->second.dtype)
                               .decode(Bytes(payload.data(), payload.size()), tensor.shape, 0, tensor.shape.rows(),
                                       values.data());
                         }
                         if (cut) values = gather(values, tensor.shape, cut->axis, keep[layer]);
                         return with_context("tensor '" + printable(tensor.name) + "'",
                                             [&] { return codec::of(dtype).encode(values, shape, {}, pool); });
                       }});
  }
  cmf::Contents contents = contents_of(base);
  contents.header.erase("skills");
  if (!keep_file.empty()) {
    contents.masks.clear();
    uint64_t live = 0, most = 0, dense = 0;
    for (size_t layer = 0; layer < width.size(); ++layer) {
      live += width[layer];
      most = std::max(most, width[layer]);
      dense += width[layer] > 0 ? 1 : 0;
      report.cut_layers += keep[layer].empty() ? 0 : 1;
    }
    const double ratio =
        1 - static_cast<double>(live) / static_cast<double>(std::max<uint64_t>(1, dense * arch.intermediate_size));
    contents.header["arch"]["intermediate_size"] = most;
    contents.header["provenance"]["defrag"] = {
        {"source_skill", options.overlays.empty() ? options.keep : options.overlays},
        {"pre_intermediate", arch.intermediate_size},
        {"post_intermediate_max", most},
        {"kept_per_layer", width},
        {"pruned_ratio", std::round(ratio * 1e4) / 1e4}};
  }
  if (!base.header().skills.empty()) report.warnings.push_back("the base's own skills are left out of the specialist");
  report.bytes = write_model(base, output, std::move(contents), std::move(tensors), progress, cancel);
  return report;
}

}  // namespace cortiq::skills
