#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "engine/binding.h"
#include "engine/decoder.h"
#include "engine/generate.h"
#include "engine/route.h"

namespace cortiq::cli {

/// Flags of every command that runs a model, and the model they make.
struct ModelFlags {
  std::string path;
  bool exact = false;
  std::string kv;    ///< "", "f32", "f16", "q8"
  std::string load;  ///< "", "mmap", "huge"
  std::optional<uint64_t> context;
  std::string skill = "none";
  std::optional<std::string> task, blend, moe_mask, route_stats;
  std::optional<double> moe_cover;
  bool no_mtp = false;
  std::string mtp_hidden = "auto";

  void declare(Flags& flags);
  void declare_mtp(Flags& flags);
};

/// Sampling flags; one table of defaults for all commands (decisions 32).
struct SamplerFlags {
  bool greedy = false;
  engine::SamplerOptions options;
  double top_k = 40;
  std::optional<uint64_t> seed;

  void declare(Flags& flags);
  /// Checked options; Usage for a value out of range.
  engine::SamplerOptions resolve() const;
};

/// A loaded model with its decoder, and the bindings that were asked for.
class Session {
 public:
  Session(const ModelFlags& flags, const Common& common, bool tokenizer = true);
  /// Writes the routing counts if they were asked for.
  void finish();

  const engine::Model& model() const noexcept { return *model_; }
  const std::shared_ptr<const engine::Model>& shared_model() const noexcept { return model_; }
  engine::Decoder& decoder() noexcept { return *decoder_; }
  ThreadPool& pool() noexcept { return *pool_; }
  engine::MtpChoice mtp() const noexcept { return mtp_; }
  double load_seconds() const noexcept { return load_seconds_; }

  /// The binding that the command line asks for; `prompt` is what --skill auto and --blend auto look at.
  std::shared_ptr<const engine::Binding> binding(const engine::RoutePrompt* prompt);
  /// The same with a row's own wishes in place of the command line's.
  std::shared_ptr<const engine::Binding> binding(const std::optional<std::string>& skill,
                                                 const std::optional<std::string>& task,
                                                 const std::optional<std::string>& blend,
                                                 const engine::RoutePrompt* prompt);
  /// What of a run a binding's skill and mask do not say: "blend sql:0.62,json:0.38", "experts restricted".
  std::string remarks() const;

  /// Warnings of the model and of every binding so far, each once.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  void note(const std::vector<std::string>& sentences);

  ModelFlags flags_;
  std::unique_ptr<ThreadPool> pool_;
  std::shared_ptr<const engine::Model> model_;
  std::unique_ptr<engine::Decoder> decoder_;
  engine::MtpChoice mtp_ = engine::MtpChoice::Auto;
  std::vector<std::vector<uint32_t>> experts_;
  std::map<std::string, std::shared_ptr<const engine::Binding>> bindings_;
  engine::ExpertCounts counts_;
  std::string counts_file_;
  std::vector<std::string> warnings_;
  std::string blended_;  // the last blend that was bound
  double load_seconds_ = 0;
};

}  // namespace cortiq::cli
