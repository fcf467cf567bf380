#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "cmf/file.h"
#include "cmf/writer.h"

namespace cortiq::skills {

/// A tensor of a file that is made from another one: copied as it is, or given by a function that makes its payload
/// when its turn comes, so that one tensor at a time is in memory.
struct OutputTensor {
  cmf::Declaration declaration;
  const cmf::Tensor* copied = nullptr;
  std::function<std::vector<uint8_t>()> made;
};

OutputTensor copy_of(const cmf::Tensor& tensor);
OutputTensor copy_of(const cmf::Tensor& tensor, std::string new_name);

/// Writes a new file of these tensors, in this order. Returns its size.
uint64_t write_model(const cmf::FileSet& source, const std::string& output, cmf::Contents contents,
                     std::vector<OutputTensor> tensors, Progress& progress, const Cancellation& cancel,
                     FileSystem& files = FileSystem::real());

/// Header, tokenizer and masks of a file as they are, ready to be changed. The shard block is left out: what is written
/// is one file.
cmf::Contents contents_of(const cmf::FileSet& source);

/// The sorted layer indices that occur in names.
std::vector<uint64_t> layers_in(const std::vector<std::string>& names);

}  // namespace cortiq::skills
