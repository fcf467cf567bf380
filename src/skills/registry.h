#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "skills/donor.h"

namespace cortiq::skills {

/// Where a change of a file goes: in place (append-only, §9) or into another file.
struct Target {
  std::string path;
  std::string output;  ///< empty: in place
};

struct RegistryReport {
  uint64_t tensors = 0, bytes = 0, file_bytes = 0;
  bool replaced = false;  ///< a skill of this id was there
  std::vector<std::string> warnings;
};

/// Refuses ids outside [A-Za-z0-9_-] and the words none, auto, backbone (decisions 22); Usage.
void check_skill_id(const std::string& id);

/// Refuses mask names that cannot be asked for: empty, none, off, or with control characters; Usage.
void check_mask_name(const std::string& name);

/// Appends a skill, or replaces the one of this id: full-shape tensors under skill.{id}.{name}, and its record. What
/// the old record said and the new one does not say (name, selection, quality of unchanged tensors) is kept.
/// `provenance` says where the tensors came from.
RegistryReport add_skill(const Target& target, const std::string& id, const std::string& name,
                         const ReplacementSet* tensors, const std::optional<Json>& selection, const Json& provenance,
                         Progress& progress, const Cancellation& cancel);

/// Sets one key of a skill's record, making the record if `create`; Usage, listing the ids, if there is none.
RegistryReport set_record_key(const Target& target, const std::string& id, const std::string& key, const Json& value,
                              bool create);

/// Takes a skill out of registry and directory; its bytes stay dead until the file is compacted.
RegistryReport remove_skill(const Target& target, const std::string& id);

/// Adds a mask (an existing name: Usage) or takes one away.
RegistryReport add_mask(const Target& target, cmf::Mask mask, bool make_default);
RegistryReport remove_mask(const Target& target, const std::string& name);
/// Sets a mask's quality contract (JSON text).
RegistryReport set_mask_quality(const Target& target, const std::string& name, const std::string& quality);

}  // namespace cortiq::skills
