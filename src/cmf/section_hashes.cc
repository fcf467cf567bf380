#include "cmf/section_hashes.h"

#include <nlohmann/json.hpp>

#include "base/hash64.h"

namespace cortiq::cmf {

std::optional<uint64_t> section_hash(Bytes section) {
  if (section.empty()) return std::nullopt;
  return hash64(section);
}

void set_section_hashes(Json& header, const SectionHashes& sections) {
  constexpr const char* kKey = "section_hashes";
  Json hashes = Json::object();
  if (sections.masks) hashes["masks"] = hex64(*sections.masks);
  if (sections.vocab) hashes["vocab"] = hex64(*sections.vocab);
  if (sections.index) hashes["index"] = hex64(*sections.index);
  if (hashes.empty()) {
    header.erase(kKey);
    return;
  }
  if (header.contains(kKey)) {
    header[kKey] = std::move(hashes);
    return;
  }
  // Behind the keys that the reference writes before it.
  Json ordered = Json::object();
  const auto follows = [](const std::string& key) {
    return key == "skills" || key == "shard" || key == "calibration" || key == "routing";
  };
  for (auto& [key, value] : header.items()) {
    if (follows(key) && !ordered.contains(kKey)) ordered[kKey] = hashes;
    ordered[key] = std::move(value);
  }
  if (!ordered.contains(kKey)) ordered[kKey] = std::move(hashes);
  header = std::move(ordered);
}

}  // namespace cortiq::cmf
