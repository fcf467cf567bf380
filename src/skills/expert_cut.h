#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "cmf/file.h"

namespace cortiq::skills {

/// Which experts a task needs, from routing counts (FORMAT_FACTS §12): per layer the admitted ones, ascending; an empty
/// list: all of them.
using ExpertSets = std::vector<std::vector<uint32_t>>;

struct ExpertStats {
  std::vector<std::vector<uint64_t>> counts;  ///< [layers][experts]; empty: nothing said
  uint64_t hash = 0;                          ///< hash64 of the file's text
};

/// Reads a statistics file {"layer": [count per expert]}, or without one the counts that an earlier cut recorded.
ExpertStats expert_stats(const cmf::FileSet& set, const std::string& path);

/// The smallest set of each layer that covers `cover` of its counts (0 < cover ≤ 1; ties: lower index).
ExpertSets cover_experts(const ExpertStats& stats, double cover);

/// Number of experts a layer holds: contiguous from 0 (§11.1).
uint64_t experts_in(const cmf::FileSet& set, uint64_t layer);

struct CutReport {
  std::vector<uint64_t> kept_per_layer;  ///< layers with experts
  uint64_t dropped = 0, bytes_before = 0, bytes_after = 0;
  std::vector<std::string> warnings;
};

/// `cortiq moe-defrag` (§11.1): a new file with the admitted experts only, renumbered from 0, router rows and biases
/// gathered, masks' expert rows remapped (decisions 27), payloads copied verbatim.
CutReport cut_experts(const cmf::FileSet& set, const ExpertStats& stats, double cover, const std::string& output,
                      Progress& progress, const Cancellation& cancel);

/// The mask that narrows routing to the same sets (`cortiq moe-mask`).
cmf::Mask expert_mask(const cmf::FileSet& set, const ExpertStats& stats, double cover, const std::string& name,
                      std::vector<std::string>& warnings);

}  // namespace cortiq::skills
