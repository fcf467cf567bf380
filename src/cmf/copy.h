#pragma once
#include "base/cancel.h"
#include "base/progress.h"
#include "cmf/file.h"

namespace cortiq::cmf {

/// Copies a payload to `offset` of another file, piece by piece; the pages of a piece are given back before the next is
/// read, so a tensor of any size costs a few MB. HashMismatch if the bytes are not those that the directory promises:
/// damage must not get a new, correct hash.
void copy_payload(const FileSet& source, const Tensor& tensor, OutputFile& target, uint64_t offset, Progress& progress,
                  const Cancellation& cancel);

}  // namespace cortiq::cmf
