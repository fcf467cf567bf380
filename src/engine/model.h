#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cmf/file.h"
#include "engine/blocks.h"
#include "kernels/rope.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace cortiq::engine {

class Binding;
struct BindingSpec;

struct ModelOptions {
  uint64_t context = 0;   ///< upper limit of positions; 0: what the header says
  bool tokenizer = true;  ///< parse tokenizer and template (not needed for ids only)
};

/// A model ready to run: the opened file, its architecture as blocks, tokenizer and chat template. Immutable and safe
/// to share between threads; sequences and decoders refer to it.
class Model {
 public:
  /// Opens the file (or the set, by any shard) and builds the blocks. Whatever the engine does not execute is refused
  /// by name (Unsupported); a tensor that is missing or has another shape is Parse, naming it and both shapes.
  static std::shared_ptr<const Model> load(const std::string& path, const ModelOptions& options = {},
                                           FileSystem& files = FileSystem::real());
  static std::shared_ptr<const Model> load(std::shared_ptr<const cmf::FileSet> set, const ModelOptions& options = {});
  ~Model();

  const cmf::FileSet& set() const noexcept { return weights_.set(); }
  const cmf::Arch& arch() const noexcept { return set().header().arch; }
  const WeightTable& weights() const noexcept { return weights_; }

  std::span<const Block> blocks() const noexcept { return blocks_; }
  /// Layers times loops: each visit has its own cache.
  uint64_t visits() const noexcept { return blocks_.size() * arch().num_loops; }
  WeightRef embedding() const noexcept { return embedding_; }
  WeightRef head() const noexcept { return head_; }
  VectorRef final_norm() const noexcept { return final_norm_; }
  const MtpHead* mtp() const noexcept { return mtp_ ? &*mtp_ : nullptr; }
  std::span<const kernels::RopeProfile> rope_profiles() const noexcept { return ropes_; }
  float attention_scale() const noexcept { return attention_scale_; }
  /// True if a block holds a recurrent state (it cannot be cut at any position).
  bool recurrent() const noexcept { return recurrent_; }
  bool has_experts() const noexcept { return experts_; }

  uint64_t hidden() const noexcept { return arch().hidden_size; }
  uint64_t vocab() const noexcept { return arch().vocab_size; }
  /// Largest number of positions of a sequence.
  uint64_t context() const noexcept { return context_; }

  /// nullptr if the file has none (or ModelOptions left it out).
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const noexcept { return tokenizer_; }
  const std::shared_ptr<const text::ChatTemplate>& chat_template() const noexcept { return template_; }
  /// Ids that end an answer: the header's (decisions 12).
  std::span<const uint32_t> stop_ids() const noexcept { return stop_ids_; }
  bool is_stop(uint32_t id) const noexcept;

  /// Sentences for the user, found at load.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

  /// The binding of skill, blend, mask and expert sets. Usage, listing what there is, for an unknown id or task; Parse
  /// for a skill whose tensors do not fit the backbone. Skill overlays are made once and kept (a few pointers a
  /// tensor); nothing of a skill's payload is touched before it is used, except its vectors.
  std::shared_ptr<const Binding> bind(const BindingSpec& spec) const;
  /// The backbone alone, dense.
  std::shared_ptr<const Binding> backbone() const;

  /// Bytes of weights that one decoded token reads under a binding (top-k experts, live neurons, one embedding row).
  uint64_t bytes_per_token(const Binding& binding) const;

 private:
  friend class ModelBuilder;
  friend class Binding;
  explicit Model(std::shared_ptr<const cmf::FileSet> set);

  WeightTable weights_;
  std::vector<Block> blocks_;
  WeightRef embedding_, head_;
  VectorRef final_norm_;
  std::optional<MtpHead> mtp_;
  std::vector<kernels::RopeProfile> ropes_;
  float attention_scale_ = 1;
  bool recurrent_ = false, experts_ = false;
  uint64_t context_ = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::ChatTemplate> template_;
  std::vector<uint32_t> stop_ids_;
  std::vector<std::string> warnings_;

  struct Overlays;
  std::unique_ptr<Overlays> overlays_;  // skills that were bound, by id
};

}  // namespace cortiq::engine
