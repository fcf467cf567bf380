#pragma once
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cmf/file.h"

namespace cortiq::skills {

/// Live neurons of every layer, ascending; an empty list: the layer keeps all of its neurons.
using KeepSet = std::vector<std::vector<uint32_t>>;

/// What a cut did (§11).
struct DefragReport {
  uint64_t bytes_before = 0, bytes_after = 0;
  std::vector<uint64_t> kept_per_layer;
  double pruned_ratio = 0;
  std::vector<std::string> warnings;
};

/// Bakes one mask of a file (`cortiq defrag FILE --task NAME`): the neurons it switches off are dropped from gate, up
/// and down projections, layer by layer, in their dtypes (a down projection whose width is no multiple of 32 becomes
/// q8_2f). Refused by name (decisions 27): a mask that restricts heads, gates or experts or differs between visits, and
/// a layer that keeps no neuron. Skills are left out with a warning; an MTP block stays whole.
DefragReport defrag(const cmf::FileSet& set, const std::string& task, const std::string& output, ThreadPool& pool,
                    Progress& progress, const Cancellation& cancel);

/// The mask of this name; Usage, listing what there is, if there is none.
const cmf::Mask& find_mask(const cmf::FileSet& set, const std::string& name);

/// One FFN tensor with the dead neurons of its layer gone: rows of gate and up (and their biases), columns of down.
/// `rest` is the name after "model.layers.N."; nothing for a tensor that has no neuron axis. The dtype is the given one
/// as far as the new shape allows it.
struct CutTensor {
  codec::Dtype dtype;
  codec::Shape shape;
  enum class Axis { Rows, Columns } axis;
};
std::optional<CutTensor> plan_cut(std::string_view rest, codec::Dtype dtype, const codec::Shape& shape,
                                  const std::vector<uint32_t>& keep);
/// The values of the cut tensor, from all values of the whole one.
std::vector<float> gather(const std::vector<float>& values, const codec::Shape& shape, CutTensor::Axis axis,
                          const std::vector<uint32_t>& keep);

}  // namespace cortiq::skills
