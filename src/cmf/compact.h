#pragma once
#include <string>
#include <vector>

#include "cmf/update.h"

namespace cortiq::cmf {

struct Compacted {
  uint64_t bytes_before = 0, bytes = 0;
  std::vector<std::string> warnings;
};

/// Rewrites a model tightly: its tensors in directory order, without dead bytes (§9). `output` may be the file itself,
/// which is then replaced by the new one at once. A set of shards becomes one file, without the shard block; it cannot
/// take the place of one of them.
Compacted compact(FileSystem& files, const std::string& path, const std::string& output,
                  Progress& progress = Progress::none(), const Cancellation& cancel = Cancellation::never());

/// compact() of a set (`merge`): Usage if the path is no shard.
Compacted merge(FileSystem& files, const std::string& path, const std::string& output,
                Progress& progress = Progress::none(), const Cancellation& cancel = Cancellation::never());

}  // namespace cortiq::cmf
