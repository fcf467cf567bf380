#include "skills/expert_cut.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash64.h"
#include "cmf/lossless_json.h"
#include "cmf/tensor_name.h"
#include "engine/binding.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

const cmf::Moe& moe_of(const cmf::FileSet& set) {
  const auto& moe = set.header().arch.moe;
  if (!moe) fail(ErrorKind::Usage, "{}: has no experts (no arch.moe)", set.first().path());
  return *moe;
}

std::vector<std::vector<uint64_t>> parse_counts(const Json& document, const cmf::FileSet& set, std::string_view what) {
  if (!document.is_object()) fail(ErrorKind::Parse, "{}: expected an object of layers", what);
  std::vector<std::vector<uint64_t>> counts(set.header().arch.num_layers);
  for (const auto& [key, row] : document.items()) {
    uint64_t layer = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (code != std::errc() || end != key.data() + key.size() || layer >= counts.size()) {
      fail(ErrorKind::Parse, "{}: '{}' is no layer of this model", what, printable(key, 40));
    }
    if (!row.is_array()) fail(ErrorKind::Parse, "{}: layer {}: expected a list of counts", what, layer);
    for (const Json& count : row) {
      if (!count.is_number_unsigned())
        fail(ErrorKind::Parse, "{}: layer {}: a count is no whole number from 0 on", what, layer);
      counts[layer].push_back(count.get<uint64_t>());
    }
  }
  return counts;
}

// Rows of a tensor that is indexed by expert, as bytes.
std::vector<uint8_t> gather_rows(const cmf::FileSet& set, const cmf::Tensor& tensor,
                                 const std::vector<uint32_t>& keep) {
  const Bytes payload = set.payload(tensor);
  const uint64_t size = payload.size() / tensor.shape.dims[0];
  std::vector<uint8_t> rows;
  rows.reserve(size * keep.size());
  for (const uint32_t row : keep) {
    const Bytes one = payload.slice(row * size, size, tensor.name);
    rows.insert(rows.end(), one.data(), one.data() + one.size());
  }
  return rows;
}

bool plain_floats(codec::Dtype dtype) {
  return dtype == codec::Dtype::F32 || dtype == codec::Dtype::F16 || dtype == codec::Dtype::BF16;
}

// The masks of the cut file: kept experts' bits moved to the front. Bits of experts that are gone count as open where
// nothing is restricted, so that a full row stays full.
std::vector<uint8_t> remapped_masks(const cmf::FileSet& set, const ExpertSets& keep,
                                    std::vector<std::string>& warnings) {
  cmf::Masks masks = set.first().masks();
  if (masks.masks.empty()) return {};
  std::erase_if(masks.masks, [&](cmf::Mask& mask) {
    for (size_t layer = 0; layer < mask.experts.size(); ++layer) {
      if (keep[layer].empty()) continue;
      std::vector<uint8_t> row;
      for (const uint32_t expert : keep[layer]) row.push_back(mask.experts[layer][expert]);
      const bool restricted = std::find(row.begin(), row.end(), 0) != row.end();
      if (std::find(row.begin(), row.end(), 1) == row.end()) {
        warnings.push_back(
            fmt::format("mask '{}' is left out: none of its experts in layer {} is kept", printable(mask.name), layer));
        return true;
      }
      row.resize(mask.experts[layer].size(), restricted ? 0 : 1);
      mask.experts[layer] = std::move(row);
    }
    return false;
  });
  if (masks.masks.empty()) return {};
  return cmf::write_masks(masks, set.header().arch);
}

}  // namespace

ExpertStats expert_stats(const cmf::FileSet& set, const std::string& path) {
  moe_of(set);
  ExpertStats stats;
  if (!path.empty()) {
    const std::string text = FileSystem::real().read_all(path);
    stats.counts = parse_counts(parse_json(text, path), set, path);
    stats.hash = hash64(Bytes(text));
    return stats;
  }
  const Json& header = *set.header().json;
  if (header.contains("provenance") && header["provenance"].is_object() &&
      header["provenance"].contains("moe_defrag")) {
    const Json& earlier = header["provenance"]["moe_defrag"];
    if (earlier.is_object() && earlier.contains("routing_counts")) {
      const Json& counts = earlier["routing_counts"];
      stats.counts = parse_counts(counts, set, "provenance.moe_defrag.routing_counts");
      stats.hash = hash64(Bytes(counts.dump()));
      return stats;
    }
  }
  fail(ErrorKind::Usage,
       "{}: records no routing counts; collect some with cortiq run … --route-stats FILE and give --stats",
       set.first().path());
}

ExpertSets cover_experts(const ExpertStats& stats, double cover) {
  if (!(cover > 0 && cover <= 1)) fail(ErrorKind::Usage, "--cover {}: expected a share above 0 and up to 1", cover);
  return engine::admitted_by_cover(stats.counts, cover);
}

uint64_t experts_in(const cmf::FileSet& set, uint64_t layer) {
  uint64_t count = 0;
  while (set.find(fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", layer, count)) != nullptr) ++count;
  return count;
}

namespace {

// Admitted experts a layer, as far as the statistics fit the layer; unusable ones leave it whole.
ExpertSets usable_sets(const cmf::FileSet& set, ExpertStats stats, double cover, std::vector<std::string>& warnings) {
  stats.counts.resize(set.header().arch.num_layers);
  for (size_t layer = 0; layer < stats.counts.size(); ++layer) {
    const uint64_t have = experts_in(set, layer);
    if (stats.counts[layer].empty() || stats.counts[layer].size() == have) continue;
    if (have > 0) {
      warnings.push_back(
          fmt::format("layer {} stays whole: {} counts for {} experts", layer, stats.counts[layer].size(), have));
    }
    stats.counts[layer].clear();
  }
  ExpertSets sets = cover_experts(stats, cover);
  sets.resize(set.header().arch.num_layers);
  return sets;
}

}  // namespace

CutReport cut_experts(const cmf::FileSet& set, const ExpertStats& stats, double cover, const std::string& output,
                      Progress& progress, const Cancellation& cancel) {
  const cmf::Moe& moe = moe_of(set);
  CutReport report;
  const ExpertSets keep = usable_sets(set, stats, cover, report.warnings);
  std::vector<OutputTensor> tensors;
  for (const cmf::Tensor& tensor : set.tensors()) {
    report.bytes_before += tensor.nbytes;
    std::string_view name = tensor.name;
    std::string prefix;
    if (name.starts_with("skill.")) {  // a skill's replacement is cut as what it replaces
      const size_t at = name.find(".model.layers.");
      if (at != std::string_view::npos) {
        prefix = name.substr(0, at + 1);
        name.remove_prefix(at + 1);
      }
    }
    const auto place = cmf::layer_name(name, keep.size());
    if (!place || keep[place->number].empty()) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    const auto& [layer, rest] = *place;
    const std::vector<uint32_t>& kept = keep[layer];
    if (rest == "mlp.per_expert_scale" || rest == "mlp.tid2eid") {
      fail(ErrorKind::Unsupported, "{}: tensor '{}' is indexed by expert in a way that cannot be cut",
           set.first().path(), printable(tensor.name));
    }
    if (const auto expert = cmf::expert_name(rest)) {
      const std::string_view part = expert->rest;
      const auto found = std::lower_bound(kept.begin(), kept.end(), expert->number);
      if (found == kept.end() || *found != expert->number) {
        if (part == "gate_proj.weight" && prefix.empty()) ++report.dropped;
        continue;
      }
      tensors.push_back(copy_of(
          tensor, fmt::format("{}model.layers.{}.mlp.experts.{}.{}", prefix, layer, found - kept.begin(), part)));
    } else if (rest == "mlp.gate.weight" || rest == "mlp.expert_bias") {
      if (!plain_floats(tensor.dtype)) {
        fail(ErrorKind::Unsupported, "{}: router tensor '{}' is {}; only f32, f16 and bf16 routers can be cut",
             set.first().path(), printable(tensor.name), codec::name(tensor.dtype));
      }
      codec::Shape shape = tensor.shape;
      shape.dims[0] = static_cast<uint32_t>(kept.size());
      tensors.push_back({{std::string(tensor.name), tensor.dtype, shape}, nullptr, [&set, &tensor, &kept] {
                           return gather_rows(set, tensor, kept);
                         }});
    } else {
      tensors.push_back(copy_of(tensor));
    }
  }
  if (report.dropped == 0) {
    fail(ErrorKind::Usage, "{}: cover {} keeps every expert; nothing to cut", set.first().path(), cover);
  }
  Json counts = Json::object(), kept_json = Json::array();
  for (size_t layer = 0; layer < keep.size(); ++layer) {
    const uint64_t have = experts_in(set, layer);
    if (have == 0) continue;
    report.kept_per_layer.push_back(keep[layer].empty() ? have : keep[layer].size());
    if (layer >= stats.counts.size() || stats.counts[layer].empty()) continue;
    kept_json.push_back(report.kept_per_layer.back());
    Json row = Json::array();
    if (keep[layer].empty()) row = stats.counts[layer];
    for (const uint32_t expert : keep[layer]) row.push_back(stats.counts[layer][expert]);
    counts[std::to_string(layer)] = row;
  }
  cmf::Contents contents = contents_of(set);
  contents.masks = remapped_masks(set, keep, report.warnings);
  contents.header["provenance"]["moe_defrag"] = {
      {"tool", "cortiq moe-defrag"},       {"cover", cover},
      {"stats_hash64", hex64(stats.hash)}, {"num_experts_pre", moe.num_experts},
      {"kept_per_layer", kept_json},       {"routing_counts", counts}};
  report.bytes_after = write_model(set, output, std::move(contents), std::move(tensors), progress, cancel);
  return report;
}

cmf::Mask expert_mask(const cmf::FileSet& set, const ExpertStats& stats, double cover, const std::string& name,
                      std::vector<std::string>& warnings) {
  const cmf::Arch& arch = set.header().arch;
  const cmf::Moe& moe = moe_of(set);
  const ExpertSets keep = usable_sets(set, stats, cover, warnings);
  cmf::Mask mask;
  mask.name = name;
  mask.priority = "Normal";
  mask.has_expert_fields = true;
  uint64_t kept = 0, layers = 0;
  for (size_t layer = 0; layer < arch.num_layers; ++layer) {
    std::vector<uint8_t> row(moe.num_experts, keep[layer].empty() ? 1 : 0);
    for (const uint32_t expert : keep[layer]) row[expert] = 1;
    if (!keep[layer].empty()) ++layers;
    kept += static_cast<uint64_t>(std::count(row.begin(), row.end(), 1));
    mask.experts.push_back(std::move(row));
  }
  mask.description = fmt::format("MoE expert mask (cover {:.0f}%, {} layers)", cover * 100, layers);
  mask.sparsity = 1 - static_cast<double>(kept) / static_cast<double>(arch.num_layers * moe.num_experts);
  return mask;
}

}  // namespace cortiq::skills
