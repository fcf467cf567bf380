#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cmf/file.h"
#include "codec/quant.h"

namespace cortiq::skills {

/// A full-shape replacement of a backbone tensor, encoded.
struct Replacement {
  std::string name;  ///< the backbone's
  codec::Dtype dtype;
  codec::Shape shape;
  std::vector<uint8_t> payload;
  std::string note;  ///< why another dtype than asked for
};

struct ReplacementSet {
  std::vector<Replacement> tensors;
  std::vector<std::string> warnings;
};

struct DonorOptions {
  std::optional<codec::Quant> quant;  ///< absent: each backbone tensor's own dtype
  std::optional<double> min_delta;    ///< relative Frobenius change below which a tensor counts as unchanged
  std::string base;                   ///< checkpoint the backbone was made from: compared directly
};

/// What a donor (a Hugging Face directory or a CMF file of the same architecture) has that the backbone has not
/// (decisions 23). A tensor of another shape, or one that the backbone lacks, is Parse naming both.
ReplacementSet from_donor(const cmf::FileSet& backbone, const std::string& donor, const DonorOptions& options,
                          ThreadPool& pool, Progress& progress, const Cancellation& cancel);

/// The tensors of a safetensors file under the backbone's names, all of them.
ReplacementSet from_safetensors(const cmf::FileSet& backbone, const std::string& path,
                                const std::optional<codec::Quant>& quant, ThreadPool& pool, Progress& progress,
                                const Cancellation& cancel);

/// A PEFT LoRA adapter merged in f32 into full tensors (§9 demands full shapes). The backbone's values are the decoded
/// ones of the file, or those of `base` if given.
ReplacementSet from_lora(const cmf::FileSet& backbone, const std::string& adapter,
                         const std::optional<codec::Quant>& quant, const std::string& base, ThreadPool& pool,
                         Progress& progress, const Cancellation& cancel);

}  // namespace cortiq::skills
