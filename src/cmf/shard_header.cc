#include "cmf/shard_header.h"

#include <nlohmann/json.hpp>

namespace cortiq::cmf {
namespace {

constexpr const char* kSet = "shard_set";

}  // namespace

Json shard_header(const Json& whole, uint64_t no, uint64_t count, const std::string& set) {
  Json out = without_shard(whole);
  if (!out.contains("provenance") || out["provenance"].is_null()) out["provenance"] = Json::object();
  if (out["provenance"].is_object()) out["provenance"][kSet] = set;  // free-form: somebody's may be something else
  if (no != 1) {
    out.erase("section_hashes");
    out["tokenizer_config"] = nullptr;
    out["skills"] = Json::array();
  }
  Json place = Json::object();
  place["no"] = no;
  place["count"] = count;
  out["shard"] = std::move(place);
  return out;
}

Json without_shard(const Json& first) {
  Json out = first;
  out.erase("shard");
  if (const auto provenance = out.find("provenance"); provenance != out.end() && provenance->is_object()) {
    const bool had = provenance->erase(kSet) != 0;
    if (had && provenance->empty()) out.erase("provenance");
  }
  return out;
}

}  // namespace cortiq::cmf
