#include "skills/lifecycle.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash64.h"
#include "cmf/lossless_json.h"
#include "cmf/skill_tensors.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

bool same_rows(const cmf::Mask& a, const cmf::Mask& b) {
  return a.ffn == b.ffn && a.heads == b.heads && a.gates == b.gates && a.experts == b.experts &&
         a.has_expert_fields == b.has_expert_fields && a.description == b.description && a.priority == b.priority &&
         a.quality == b.quality;
}

// Masks of the base and of the skill in one catalogue; the skill's default task wins.
std::vector<uint8_t> joined_masks(const cmf::FileSet& base, const cmf::File& skill, bool force) {
  cmf::Masks joined = base.first().masks();
  if (joined.masks.empty()) {  // the skill's section serves as it is
    const Bytes bytes = skill.masks_bytes();
    return {bytes.data(), bytes.data() + bytes.size()};
  }
  if (skill.masks().masks.empty()) {
    const Bytes bytes = base.first().masks_bytes();
    return {bytes.data(), bytes.data() + bytes.size()};
  }
  uint32_t next_id = 0;
  for (const auto& mask : joined.masks) next_id = std::max(next_id, mask.task_id + 1);
  for (const cmf::Mask& mask : skill.masks().masks) {
    const auto same =
        std::find_if(joined.masks.begin(), joined.masks.end(), [&](const auto& one) { return one.name == mask.name; });
    if (same == joined.masks.end()) {
      cmf::Mask added = mask;
      const bool taken = std::any_of(joined.masks.begin(), joined.masks.end(),
                                     [&](const auto& one) { return one.task_id == mask.task_id; });
      if (taken) added.task_id = next_id++;
      joined.masks.push_back(std::move(added));
    } else if (!same_rows(*same, mask)) {
      if (!force) {
        fail(ErrorKind::Usage,
             "{}: mask '{}' of the base has other content than the skill's; --force takes the skill's", skill.path(),
             printable(mask.name));
      }
      const uint32_t id = same->task_id;
      *same = mask;
      same->task_id = id;
    }
  }
  joined.default_task = skill.masks().default_task;
  return cmf::write_masks(joined, base.header().arch);
}

}  // namespace

LifecycleReport export_skill(const cmf::FileSet& specialist, const cmf::FileSet& base, const std::string& id,
                             const std::string& name, const std::string& output, Progress& progress,
                             const Cancellation& cancel) {
  const cmf::Arch &a = specialist.header().arch, &b = base.header().arch;
  if (a.arch_name != b.arch_name || a.num_layers != b.num_layers || a.hidden_size != b.hidden_size) {
    fail(ErrorKind::Usage, "{} ({}, {} layers of {}) was not made from {} ({}, {} layers of {})",
         specialist.first().path(), printable(a.arch_name), a.num_layers, a.hidden_size, base.first().path(),
         printable(b.arch_name), b.num_layers, b.hidden_size);
  }
  if (base.files().size() > 1)
    fail(ErrorKind::Unsupported, "a skill is bound to the directory of one file: merge the base's shards first");
  LifecycleReport report;
  std::vector<OutputTensor> tensors;
  std::vector<std::string> names;
  // A file that holds a skill of this id means that one; other skills are not part of a specialist.
  const std::string prefix = "skill." + id + ".";
  const bool registered = specialist.header().skill(id) != nullptr;
  for (const cmf::Tensor& tensor : specialist.tensors()) {
    const bool of_a_skill = tensor.name.starts_with("skill.");
    if (registered != tensor.name.starts_with(prefix) || (of_a_skill && !registered)) continue;
    const std::string target(registered ? tensor.name.substr(prefix.size()) : tensor.name);
    const cmf::Tensor* twin = base.find(target);
    if (twin != nullptr && twin->hash == tensor.hash && twin->dtype == tensor.dtype && twin->shape == tensor.shape)
      continue;
    tensors.push_back(copy_of(tensor, target));
    names.push_back(target);
    report.bytes += tensor.nbytes;
  }
  if (tensors.empty())
    fail(ErrorKind::Usage, "{} and {} hold the same tensors; there is no skill between them", specialist.first().path(),
         base.first().path());
  report.tensors = tensors.size();
  report.layers = layers_in(names);

  Json record = {{"id", id}};
  if (!name.empty()) record["name"] = name;
  record["layers"] = report.layers;
  record["base_dir_hash"] = hex64(base.first().directory_hash());
  record["base_arch"] = b.arch_name;
  const cmf::Masks& masks = specialist.first().masks();
  if (!masks.masks.empty() && !masks.default_task.empty()) record["task"] = masks.default_task;
  record["provenance"] = {{"cut_from", file_name_of(specialist.first().path())}, {"tensors", report.tensors}};
  cmf::Contents contents = contents_of(specialist);
  contents.tokenizer_json.clear();
  contents.header["skills"] = Json::array({record});
  write_model(specialist, output, std::move(contents), std::move(tensors), progress, cancel);
  return report;
}

LifecycleReport apply_skill(const cmf::FileSet& base, const cmf::File& skill, bool force, const std::string& output,
                            Progress& progress, const Cancellation& cancel) {
  const auto& records = skill.header().skills;
  const auto bound =
      std::find_if(records.begin(), records.end(), [](const auto& one) { return !one.base_dir_hash.empty(); });
  if (bound == records.end())
    fail(ErrorKind::Usage, "{}: is no standalone skill (no record with base_dir_hash)", skill.path());
  LifecycleReport report;
  const std::string have = hex64(base.first().directory_hash());
  if (base.files().size() > 1 || parse_hex64(bound->base_dir_hash, "base_dir_hash") != base.first().directory_hash()) {
    if (!force) {
      fail(ErrorKind::HashMismatch,
           "{}: skill '{}' was cut against a base with directory hash {}, {} has {}; find that base, or --force",
           skill.path(), printable(bound->id), printable(bound->base_dir_hash, 40), base.first().path(), have);
    }
    report.warnings.push_back("the skill was cut against another base: the result is out of the specification");
  }
  for (const cmf::Tensor& tensor : skill.tensors()) {
    if (base.find(tensor.name) == nullptr) {
      const std::string near = cmf::nearest_name(base.tensors(), tensor.name);
      fail(ErrorKind::Parse, "{}: tensor '{}' replaces nothing in {}{}", skill.path(), printable(tensor.name),
           base.first().path(), near.empty() ? "" : "; the nearest name is '" + printable(near) + "'");
    }
    if (hash64(skill.payload(tensor)) != tensor.hash) {
      fail(ErrorKind::HashMismatch, "{}: tensor '{}' is damaged; copy the file again", skill.path(),
           printable(tensor.name));
    }
  }
  std::vector<OutputTensor> tensors;
  std::vector<std::string> names;
  for (const cmf::Tensor& tensor : base.tensors()) {
    const cmf::Tensor* replacement = skill.find(tensor.name);
    if (replacement == nullptr) {
      tensors.push_back(copy_of(tensor));
      continue;
    }
    names.emplace_back(tensor.name);
    report.bytes += replacement->nbytes;
    tensors.push_back(
        {{std::string(tensor.name), replacement->dtype, replacement->shape}, nullptr, [&skill, replacement] {
           const Bytes bytes = skill.payload(*replacement);
           return std::vector<uint8_t>(bytes.data(), bytes.data() + bytes.size());
         }});
  }
  report.tensors = names.size();
  report.layers = layers_in(names);

  cmf::Contents contents = contents_of(base);
  contents.masks = joined_masks(base, skill, force);
  Json record = cmf::parse_lossless_json(bound->json, "skills");
  record.erase("base_dir_hash");
  Json& registry = contents.header["skills"];
  if (!registry.is_array()) registry = Json::array();
  for (const Json& one : registry) {
    if (one.is_object() && one.contains("id") && one["id"] == record["id"]) {
      fail(ErrorKind::Usage, "{}: the base already has a skill '{}'", base.first().path(), printable(bound->id));
    }
  }
  registry.push_back(record);
  write_model(base, output, std::move(contents), std::move(tensors), progress, cancel);
  return report;
}

}  // namespace cortiq::skills
