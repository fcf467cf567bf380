#pragma once
#include <string>

#include "skills/defrag.h"
#include "skills/donor.h"

namespace cortiq::skills {

struct BakeOptions {
  std::string donor;     ///< HF directory or CMF file: what differs goes into the specialist
  std::string overlays;  ///< folder with tensors/NAME.npy and, if there, ffn_keep.npy (FORMAT_FACTS §13)
  std::string keep;      ///< .npy, bool [layers, intermediate]: live neurons; over the folder's
  DonorOptions donor_options;
};

struct BakeReport {
  uint64_t replaced = 0, cut_layers = 0, bytes = 0;
  std::vector<std::string> warnings;
};

/// `cortiq skill bake`: a specialist, that is the base with a donor's tensors or with overlays in place of its own, and
/// with the dead neurons of a keep-set gone. `skill export --base` cuts the skill out of it again.
BakeReport bake(const cmf::FileSet& base, const BakeOptions& options, const std::string& output, ThreadPool& pool,
                Progress& progress, const Cancellation& cancel);

/// A keep-set file: bool (or non-zero) [layers, intermediate]. Usage for another shape, Unsupported for a layer that
/// keeps nothing.
KeepSet read_keep_set(const std::string& path, const cmf::Arch& arch);

}  // namespace cortiq::skills
