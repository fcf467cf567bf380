#pragma once
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "cmf/file.h"

namespace cortiq::skills {

struct LifecycleReport {
  uint64_t tensors = 0, bytes = 0;
  std::vector<uint64_t> layers;
  std::vector<std::string> warnings;
};

/// `cortiq skill export` (§9.1): a standalone skill file with what differs between a specialist and the base it was
/// made from, bound to the base by the hash of its directory. Usage if nothing differs or the two are not one kind.
LifecycleReport export_skill(const cmf::FileSet& specialist, const cmf::FileSet& base, const std::string& id,
                             const std::string& name, const std::string& output, Progress& progress,
                             const Cancellation& cancel);

/// `cortiq skill apply` (§9.1): base and skill file become the specialist again: tensors replaced (shapes may differ),
/// masks of both (decisions 26), the record without its key. HashMismatch for another base, Parse for a tensor that the
/// base lacks, Usage for a mask of the same name with other content; `force` overrides the first and the last.
LifecycleReport apply_skill(const cmf::FileSet& base, const cmf::File& skill, bool force, const std::string& output,
                            Progress& progress, const Cancellation& cancel);

}  // namespace cortiq::skills
