#pragma once
#include <cstdint>
#include <string>

#include "base/json.h"

namespace cortiq::cmf {

/// The header of shard `no` of `count` of a model with this header (§10): the registry, the chat bundle and the section
/// hashes stand in the first shard only. `set` (16 hex digits) goes to provenance.shard_set: it is drawn from all bytes
/// of the set, so that shards of two sets with one name are told apart.
Json shard_header(const Json& whole, uint64_t no, uint64_t count, const std::string& set);

/// The header of the whole model from that of its first shard: without shard block and provenance.shard_set.
Json without_shard(const Json& first);

}  // namespace cortiq::cmf
