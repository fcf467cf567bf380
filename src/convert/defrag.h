#pragma once
#include <memory>
#include <vector>

#include "convert/convert.h"
#include "convert/describe.h"
#include "convert/names.h"

namespace cortiq::convert {

/// Cuts the dead neurons of dense FFNs (FORMAT_FACTS §11): the folder's ffn_keep.npy says which live, or those live
/// whose down_proj column (of tensors/{name}.npy if it is there, else of the checkpoint) has any value but 0. Overlays
/// replace the FFN matrices before cutting. Changes recipes and shapes, arch.intermediate_size and the provenance.
void cut_neurons(const ConvertOptions& options, FileSystem& files, Mapping& mapping, Described& model,
                 std::vector<std::shared_ptr<const Source>>& sources, ThreadPool& pool);

}  // namespace cortiq::convert
