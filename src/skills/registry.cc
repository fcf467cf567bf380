#include "skills/registry.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cmf/lossless_json.h"
#include "cmf/skill_record.h"
#include "cmf/skill_tensors.h"
#include "cmf/update.h"
#include "skills/defrag.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

// The record of an id in a header's registry, or nullptr.
Json* find_record(Json& header, const std::string& id) {
  Json& registry = header["skills"];
  if (!registry.is_array()) registry = Json::array();
  for (Json& record : registry) {
    if (record.is_object() && record.contains("id") && record["id"] == id) return &record;
  }
  return nullptr;
}

[[noreturn]] void no_such_skill(const cmf::FileSet& model, const std::string& id) {
  std::string ids;
  for (const auto& one : model.header().skills) ids += (ids.empty() ? "" : ", ") + printable(one.id, 60);
  fail(ErrorKind::Usage, "{}: no skill '{}'; there {}", model.first().path(), printable(id, 60),
       ids.empty() ? "are none" : "are: " + ids);
}

std::vector<std::string> tensors_of(const cmf::FileSet& model, const std::string& id) {
  std::vector<std::string> names;
  for (const auto& tensor : model.tensors()) {
    if (tensor.name.starts_with("skill." + id + ".")) names.emplace_back(tensor.name);
  }
  return names;
}

RegistryReport run(cmf::Update& update, cmf::Change change, const ReplacementSet* tensors = nullptr) {
  RegistryReport report;
  update.begin(std::move(change));
  if (tensors != nullptr) {
    for (const Replacement& one : tensors->tensors) {
      update.append(Bytes(one.payload.data(), one.payload.size()));
      report.bytes += one.payload.size();
    }
    report.tensors = tensors->tensors.size();
    report.warnings = tensors->warnings;
  }
  report.file_bytes = update.finish();
  report.warnings.insert(report.warnings.end(), update.warnings().begin(), update.warnings().end());
  return report;
}

// The change that gives a model this catalogue of masks.
cmf::Change masks_change(const cmf::FileSet& model, const cmf::Masks& masks) {
  cmf::Change change;
  change.masks = masks.masks.empty() ? std::vector<uint8_t>{} : cmf::write_masks(masks, model.header().arch);
  return change;
}

}  // namespace

void check_skill_id(const std::string& id) {
  const bool letters = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!letters) fail(ErrorKind::Usage, "--id '{}': use letters, digits, _ and - only", printable(id, 60));
  for (const char* word : {"none", "auto", "backbone"}) {
    if (id == word) fail(ErrorKind::Usage, "--id {}: this word has a meaning of its own; choose another id", id);
  }
}

void check_mask_name(const std::string& name) {
  if (name.empty()) fail(ErrorKind::Usage, "--name: the mask needs one");
  if (name == "none" || name == "off") {
    fail(ErrorKind::Usage, "--name {}: this word means dense; choose another name", name);
  }
  if (printable(name, SIZE_MAX) != name) {
    fail(ErrorKind::Usage, "--name '{}': control characters have no place in a name", printable(name, 60));
  }
}

RegistryReport add_skill(const Target& target, const std::string& id, const std::string& name,
                         const ReplacementSet* tensors, const std::optional<Json>& selection, const Json& provenance,
                         Progress& progress, const Cancellation& cancel) {
  check_skill_id(id);
  cmf::Update update(FileSystem::real(), target.path, target.output, progress, cancel);
  Json header = update.header();
  cmf::Change change;
  Json* record = find_record(header, id);
  const bool replaced = record != nullptr && tensors != nullptr;
  if (record == nullptr) {
    header["skills"].push_back({{"id", id}});
    record = &header["skills"].back();
  }
  if (!name.empty()) (*record)["name"] = name;
  if (tensors != nullptr) {
    std::vector<std::string> names;
    for (const Replacement& one : tensors->tensors) {
      names.push_back(one.name);
      change.add.push_back({cmf::skill_tensor_name(id, one.name), one.dtype, one.shape});
    }
    change.remove = tensors_of(update.model(), id);
    (*record)["layers"] = layers_in(names);
    if (replaced) record->erase("quality");  // it was measured on the tensors that go
    if (!provenance.is_null()) (*record)["provenance"] = provenance;
  } else if (!record->contains("layers")) {
    (*record)["layers"] = Json::array();
  }
  if (selection) {
    (*record)["selection"] = *selection;
    const cmf::SkillRecord read =
        cmf::parse_skill_record(cmf::Fields(*record, "skills", "--selection"), update.model().header().arch);
    const std::string reason = read.selection ? read.selection->unusable : "it is null";
    if (!reason.empty()) fail(ErrorKind::Usage, "--selection: prompts cannot be routed by it: {}", reason);
  }
  change.header = std::move(header);
  RegistryReport report = run(update, std::move(change), tensors);
  report.replaced = replaced;
  return report;
}

RegistryReport set_record_key(const Target& target, const std::string& id, const std::string& key, const Json& value,
                              bool create) {
  check_skill_id(id);
  cmf::Update update(FileSystem::real(), target.path, target.output);
  Json header = update.header();
  Json* record = find_record(header, id);
  if (record == nullptr) {
    if (!create) no_such_skill(update.model(), id);
    header["skills"].push_back({{"id", id}, {"layers", Json::array()}});
    record = &header["skills"].back();
  }
  (*record)[key] = value;
  cmf::Change change;
  change.header = std::move(header);
  return run(update, std::move(change));
}

RegistryReport remove_skill(const Target& target, const std::string& id) {
  cmf::Update update(FileSystem::real(), target.path, target.output);
  Json header = update.header();
  if (find_record(header, id) == nullptr) no_such_skill(update.model(), id);
  Json& registry = header["skills"];
  Json kept = Json::array();
  for (Json& record : registry) {
    if (!(record.is_object() && record.contains("id") && record["id"] == id)) kept.push_back(std::move(record));
  }
  registry = std::move(kept);
  cmf::Change change;
  change.header = std::move(header);
  change.remove = tensors_of(update.model(), id);
  const uint64_t removed = change.remove.size();
  RegistryReport report = run(update, std::move(change));
  report.tensors = removed;
  return report;
}

RegistryReport add_mask(const Target& target, cmf::Mask mask, bool make_default) {
  cmf::Update update(FileSystem::real(), target.path, target.output);
  cmf::Masks masks = update.model().first().masks();
  uint32_t next = 0;
  for (const auto& one : masks.masks) {
    if (one.name == mask.name) {
      fail(ErrorKind::Usage, "{}: a mask '{}' is there already; remove it first (cortiq mask remove)", target.path,
           printable(mask.name, 60));
    }
    next = std::max(next, one.task_id + 1);
  }
  // Ids of masks that we add begin at 1; 0 is the general task of converters that write one.
  mask.task_id = std::max<uint32_t>(1, next);
  if (make_default) masks.default_task = mask.name;
  masks.masks.push_back(std::move(mask));
  cmf::Change change = masks_change(update.model(), masks);
  return run(update, std::move(change));
}

RegistryReport remove_mask(const Target& target, const std::string& name) {
  cmf::Update update(FileSystem::real(), target.path, target.output);
  find_mask(update.model(), name);
  cmf::Masks masks = update.model().first().masks();
  std::erase_if(masks.masks, [&](const auto& one) { return one.name == name; });
  if (masks.default_task == name) masks.default_task.clear();
  cmf::Change change = masks_change(update.model(), masks);
  return run(update, std::move(change));
}

RegistryReport set_mask_quality(const Target& target, const std::string& name, const std::string& quality) {
  cmf::Update update(FileSystem::real(), target.path, target.output);
  find_mask(update.model(), name);
  cmf::Masks masks = update.model().first().masks();
  for (auto& one : masks.masks) {
    if (one.name == name) one.quality = quality;
  }
  cmf::Change change = masks_change(update.model(), masks);
  return run(update, std::move(change));
}

}  // namespace cortiq::skills
