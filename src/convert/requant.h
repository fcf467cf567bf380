#pragma once
#include <string>

#include "convert/convert.h"

namespace cortiq::convert {

/// Plans the re-encoding of a CMF file (or set of shards): any dtype to any. Tensors that keep their dtype are copied
/// byte for byte. Unknown header keys, masks, skills and the tokenizer stay. Only quant, quant_for, mean_bits, keep and
/// shard_max_gb of the options are looked at; an empty quant keeps every dtype that no pattern names.
struct Requant {
  std::string input;
  ConvertOptions options;
};
Summary requant(const Requant& what, const std::string& output, ThreadPool& pool, Progress& progress,
                const Cancellation& cancel, FileSystem& files = FileSystem::real());

}  // namespace cortiq::convert
