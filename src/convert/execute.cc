#include <chrono>
#include <nlohmann/json.hpp>

#include "cmf/sharded_writer.h"
#include "convert/convert.h"
#include "convert/encode.h"
#include "convert/expert_budget.h"
#include "convert/read_values.h"

namespace cortiq::convert {
namespace {

// Bytes of the source that a planned tensor stands for: what progress counts.
uint64_t source_share(const PlannedTensor& tensor) {
  const SourceTensor& from = *tensor.recipe.tensor;
  const uint64_t all = from.elements();
  return all == 0 ? 0
                  : static_cast<uint64_t>(static_cast<double>(from.nbytes) *
                                          static_cast<double>(tensor.shape.elements()) / static_cast<double>(all));
}

uint64_t needed_bytes(const Plan& plan) {
  uint64_t sum = plan.contents.tokenizer_json.size();
  for (const PlannedTensor& one : plan.tensors) sum += one.nbytes.value_or(one.shape.elements());
  return sum;
}

// What the source has in this very form already (GGUF's Q4_0 for q4_tiled).
std::optional<std::vector<uint8_t>> ready_payload(const PlannedTensor& tensor) {
  const Recipe& recipe = tensor.recipe;
  if (!recipe.rows.empty() || !recipe.columns.empty() || recipe.transpose) return std::nullopt;
  return recipe.source->encoded(*recipe.tensor, codec::name(tensor.dtype));
}

class Execution {
 public:
  Execution(const Plan& plan, ThreadPool& pool, Progress& progress, const Cancellation& cancel,
            FunctionRef<void(const PlannedTensor&, codec::Dtype, uint64_t)> done, std::vector<std::string>& warnings)
      : plan_(plan), pool_(pool), progress_(progress), cancel_(cancel), done_(done), warnings_(warnings) {
    if (plan.share_budget) budget_.emplace(plan.tensors, plan.mean_bits, plan.route_counts);
  }

  // Encodes the tensors and hands them to the writer, one at a time.
  void write(cmf::ShardedWriter& writer) {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) {
      cancel_.check();
      PlannedTensor tensor = plan_.tensors[i];
      progress_.item(tensor.name);
      if (i + 1 < plan_.tensors.size()) {
        const Recipe& next = plan_.tensors[i + 1].recipe;
        next.source->will_need(*next.tensor);
      }
      if (const auto ready = ready_payload(tensor)) {
        writer.append(Bytes{std::span<const uint8_t>(*ready)}, tensor.dtype);
        done_(tensor, tensor.dtype, ready->size());
        progress_.advance(source_share(tensor));
        continue;
      }
      values_.resize(tensor.shape.elements());
      read_values(tensor.recipe, values_, pool_);
      if (budget_) tensor.encode.row_bias = budget_->bias(plan_.tensors[i], pool_);
      const auto [payload, dtype] = encode_planned(tensor, values_, pool_, warnings_);
      writer.append(Bytes{std::span<const uint8_t>(payload)}, dtype);
      done_(tensor, dtype, payload.size());
      progress_.advance(source_share(tensor));
    }
  }

 private:
  const Plan& plan_;
  ThreadPool& pool_;
  Progress& progress_;
  const Cancellation& cancel_;
  FunctionRef<void(const PlannedTensor&, codec::Dtype, uint64_t)> done_;
  std::vector<std::string>& warnings_;
  std::vector<float> values_;
  std::optional<ExpertBudget> budget_;
};

}  // namespace

Summary execute(const Plan& plan, const std::string& output, ThreadPool& pool, Progress& progress,
                const Cancellation& cancel, FileSystem& files,
                FunctionRef<void(const PlannedTensor&, codec::Dtype, uint64_t)> done) {
  const auto begin = std::chrono::steady_clock::now();
  Summary out;
  out.warnings = plan.warnings;
  out.tensors = plan.tensors.size();
  out.source_bytes = plan.source_bytes;

  std::vector<cmf::Declaration> declarations;
  uint64_t total = 0;
  for (const PlannedTensor& one : plan.tensors) {
    declarations.push_back({one.name, one.dtype, one.shape});
    total += source_share(one);
  }
  try {
    cmf::ShardedWriter writer(files, output, plan.contents, std::move(declarations), plan.shard_max_bytes);
    progress.begin("converting", total);
    Execution(plan, pool, progress, cancel, done, out.warnings).write(writer);
    cancel.check();
    out.bytes = writer.finish();
    out.outputs = writer.paths();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Io) throw;
    throw Error(error.kind(),
                fmt::format("{} (the whole output needs about {} bytes)", error.what(), needed_bytes(plan)));
  }
  out.output = out.outputs.front();
  progress.end();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace cortiq::convert
