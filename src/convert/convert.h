#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/file_system.h"
#include "base/function_ref.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cmf/arch.h"
#include "cmf/writer.h"
#include "codec/quant.h"
#include "convert/source.h"

// The conversion of a checkpoint: open_checkpoint → make_plan → execute. A plan is complete: every output tensor with
// its source and dtype, every header key, every drop with its reason. Whatever cannot be represented is refused while
// planning, before anything is written.
namespace cortiq::convert {

struct QuantFor {
  std::string pattern;  ///< glob over CMF tensor names: * any run, ? one character, [a-z]; "lm_head" also means
                        ///< "lm_head.weight"
  std::string quant;
};

struct ConvertOptions {
  std::string quant = "q8";         ///< an option name of FORMAT_FACTS §9.2
  std::vector<QuantFor> quant_for;  ///< the last match wins
  double mean_bits = 4.25;          ///< vbit
  double keep = -1;                 ///< q1s, q1t: outlier fraction; negative: the codec's default
  bool vbit_flat = false;           ///< every tensor its own budget (no FORMAT_FACTS §5.8)
  std::string route_stats;          ///< stats file of §12: expert counts for the vbit budget; empty: none
  double shard_max_gb = 0;          ///< > 0: write a set of shards (§10)
  std::string defrag;               ///< folder with ffn_keep.npy and tensors/*.npy (§11); empty: none
  bool allow_unknown = false;       ///< drop tensors that the family does not know, with a warning
};

/// How the values of an output tensor come out of one source tensor.
struct Recipe {
  struct Range {
    uint64_t first = 0, count = 0;
  };
  const Source* source = nullptr;
  const SourceTensor* tensor = nullptr;
  std::vector<Range> rows = {};     ///< rows of the source, in output order; empty: all
  std::vector<Range> columns = {};  ///< columns of the source, in output order; empty: all
  bool transpose = false;           ///< the selected block is written transposed
};

struct PlannedTensor {
  std::string name;    ///< in the CMF
  std::string source;  ///< how the source calls it, made printable
  codec::Dtype dtype;
  codec::Shape shape;
  std::optional<uint64_t> nbytes;  ///< absent where only encoding tells (vbit, q1s, q1t)
  std::string note;                ///< why another dtype than asked for; "rows 64..127"; …
  Recipe recipe;
  codec::EncodeOptions encode;  ///< column_rms empty
  bool demanded = false;        ///< --quant-for chose the dtype: no falling back (decisions 14)
};

struct Drop {
  std::string name, reason;
};

struct Plan {
  std::string family;  ///< "qwen3"
  std::shared_ptr<Checkpoint> checkpoint;
  std::vector<std::shared_ptr<const Source>> sources;  ///< kept alive for the recipes
  cmf::Arch arch;
  cmf::Contents contents;              ///< header (without section_hashes), tokenizer section
  std::vector<PlannedTensor> tensors;  ///< in file order
  std::vector<Drop> drops;
  std::vector<std::string> notes, warnings;
  uint64_t source_bytes = 0;
  uint64_t shard_max_bytes = 0;  ///< 0: one file
  bool share_budget = false;     ///< vbit: the experts of a layer share their bits (FORMAT_FACTS §5.8)
  double mean_bits = 4.25;
  std::map<uint64_t, std::vector<uint64_t>> route_counts;  ///< per layer, selections of each expert; empty: unknown
};

/// Plans a conversion; throws what and why if the checkpoint cannot be represented.
Plan make_plan(std::shared_ptr<Checkpoint> checkpoint, const ConvertOptions& options, ThreadPool& pool,
               FileSystem& files = FileSystem::real());
Plan make_plan(const std::string& path, const ConvertOptions& options, ThreadPool& pool,
               FileSystem& files = FileSystem::real());

/// The values of a planned tensor, shape.elements() of them, row-major.
std::vector<float> read_values(const PlannedTensor& tensor, ThreadPool& pool);

struct Summary {
  std::string output;                ///< the file, or the first shard
  std::vector<std::string> outputs;  ///< all files
  uint64_t bytes = 0, tensors = 0, source_bytes = 0;
  double seconds = 0;
  std::vector<std::string> warnings;  ///< of the plan and of the execution
};

inline constexpr auto ignore_tensor = [](const PlannedTensor&, codec::Dtype, uint64_t) {};

/// Writes the planned file(s). One tensor at a time is in memory: at most twice the largest one as f32. The target
/// appears whole or not at all, also after an error or a cancellation. Bytes do not depend on the number of threads.
/// `done`, if given, is called after each tensor with its final dtype and size.
Summary execute(const Plan& plan, const std::string& output, ThreadPool& pool, Progress& progress,
                const Cancellation& cancel, FileSystem& files = FileSystem::real(),
                FunctionRef<void(const PlannedTensor&, codec::Dtype, uint64_t)> done = ignore_tensor);

}  // namespace cortiq::convert
