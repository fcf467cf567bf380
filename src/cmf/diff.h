#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cmf/file.h"

namespace cortiq::cmf {

/// One thing that differs. `a` and `b` are what either side says, as text; empty: it has none.
struct Difference {
  std::string what;  ///< a section, JSON path, mask or skill
  std::string a, b;
};

struct TensorDifference {
  std::string name;
  bool only_a = false, only_b = false;
  std::string a, b;    ///< dtype and shape
  bool bytes = false;  ///< the payloads differ
  /// Of the decoded values, where both shapes are the same and the bytes or dtypes differ: the largest |a − b|, and the
  /// largest |a − b| / max(|a|, |b|). Infinity where one side is not finite.
  std::optional<double> max_abs, max_rel;
};

struct Diff {
  std::vector<Difference> sections, header, masks, skills;
  std::vector<TensorDifference> tensors;
  uint64_t equal_tensors = 0;
  bool different() const noexcept {
    return !(sections.empty() && header.empty() && masks.empty() && skills.empty() && tensors.empty());
  }
};

/// Compares two models (files or sets): tensors by hash first, so that equal ones cost nothing; header keys by path,
/// without what follows from the rest (section hashes, the shard block); masks by name, skills by id.
Diff diff(const FileSet& a, const FileSet& b, ThreadPool& pool, Progress& progress = Progress::none(),
          const Cancellation& cancel = Cancellation::never());

Json to_json(const Diff& diff);

}  // namespace cortiq::cmf
