#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace cortiq::cmf {

/// "{stem}-{no:05}-of-{count:05}.cmf" (§10); stem may hold a folder.
struct ShardName {
  std::string stem;
  uint64_t no = 1, count = 1;
};

std::string shard_name(const std::string& stem, uint64_t no, uint64_t count);

/// Nothing if the path does not end like a shard's.
std::optional<ShardName> parse_shard_name(const std::string& path);

/// What a set of shards for this output name is called: the name without its ".cmf".
std::string shard_stem(const std::string& output);

}  // namespace cortiq::cmf
