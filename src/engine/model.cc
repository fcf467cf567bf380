#include "engine/model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/block_builder.h"
#include "engine/overlays.h"

namespace cortiq::engine {

namespace {

bool is_expert(std::string_view name) { return name.find(".mlp.experts.") != std::string_view::npos; }
bool is_skill(std::string_view name) { return name.substr(0, 6) == "skill."; }

}  // namespace

/// Fills a Model from an opened file.
class ModelBuilder {
 public:
  ModelBuilder(std::shared_ptr<const cmf::FileSet> set, const ModelOptions& options)
      : model_(new Model(std::move(set))), arch_(model_->arch()), options_(options) {}

  std::shared_ptr<const Model> build() {
    refuse_what_is_not_executed();
    ropes();
    blocks();
    head();
    mtp();
    refuse_unused_tensors();
    advise();
    text_beside_weights();
    model_->context_ = arch_.max_position_embeddings;
    if (options_.context != 0) model_->context_ = std::min(model_->context_, options_.context);
    model_->attention_scale_ =
        static_cast<float>(1.0 / std::sqrt(arch_.query_pre_attn_scalar.value_or(static_cast<double>(arch_.head_dim))));
    model_->overlays_ = std::make_unique<Model::Overlays>();
    return model_;
  }

 private:
  std::string file() const { return model_->set().first().path(); }
  WeightTable& weights() { return model_->weights_; }
  const WeightTable& weights() const { return model_->weights_; }

  void refuse_what_is_not_executed() {
    if (model_->set().first().is_skill_file()) {
      fail(ErrorKind::Unsupported, "{} holds a skill alone: add it to its backbone with `cortiq skill apply`", file());
    }
    if (!arch_.unsupported.empty()) {
      fail(ErrorKind::Unsupported, "{}: arch.{} is not executed", file(), printable(arch_.unsupported));
    }
    if (arch_.layer_types.size() != arch_.num_layers) {
      fail(ErrorKind::Parse, "{}: arch.layer_types has {} entries for {} layers", file(), arch_.layer_types.size(),
           arch_.num_layers);
    }
    if (!arch_.norm_style_given) {
      model_->warnings_.push_back("arch.norm_style is not given: plain norm weights (qwen) are assumed");
    }
  }

  uint32_t rotary(double factor, const char* key) {
    const double width = std::floor(static_cast<double>(arch_.head_dim) * factor);
    if (!(width >= 2 && width <= static_cast<double>(arch_.head_dim)) || std::fmod(width, 2) != 0) {
      fail(ErrorKind::Parse, "{}: arch.{} = {} rotates {} of {} components, an even number from 2 on is needed", file(),
           key, factor, width, arch_.head_dim);
    }
    return static_cast<uint32_t>(width);
  }

  // ENGINE_FACTS §4: profile 0 is the global one, profile 1 that of sliding layers if they have a base of their own.
  void ropes() {
    kernels::RopeProfile global;
    global.rotary = rotary(arch_.partial_rotary_factor, "partial_rotary_factor");
    global.theta = arch_.rope_theta;
    if (arch_.yarn) {
      global.yarn = true;
      global.yarn_factor = arch_.yarn->factor;
      global.yarn_beta_fast = arch_.yarn->beta_fast;
      global.yarn_beta_slow = arch_.yarn->beta_slow;
      global.yarn_original = static_cast<double>(arch_.yarn->original_max_position_embeddings);
      global.attention_factor = arch_.yarn->attention_factor;
    }
    for (const double factor : arch_.rope_freq_factors) {
      if (!(factor > 0) || !std::isfinite(factor)) {
        fail(ErrorKind::Parse, "{}: arch.rope_freq_factors holds {}, positive numbers are needed", file(), factor);
      }
    }
    global.freq_factors = arch_.rope_freq_factors;
    model_->ropes_.push_back(global);
    if (arch_.rope_local_base_freq) {
      kernels::RopeProfile local;
      local.theta = *arch_.rope_local_base_freq;
      local.rotary = rotary(arch_.local_partial_rotary_factor.value_or(arch_.partial_rotary_factor),
                            "local_partial_rotary_factor");
      model_->ropes_.push_back(local);
    }
  }

  bool sliding(uint64_t layer) const {
    const auto& types = arch_.layer_types;
    if (std::find(types.begin(), types.end(), cmf::LayerType::SlidingAttention) != types.end()) {
      return types[layer] == cmf::LayerType::SlidingAttention;
    }
    // Older Gemma files have no tags but a pattern: every P-th layer sees everything.
    return types[layer] == cmf::LayerType::FullAttention && arch_.sliding_window &&
           arch_.sliding_window_pattern.value_or(0) != 0 && (layer + 1) % *arch_.sliding_window_pattern != 0;
  }

  void blocks() {
    BlockBuilder builder(weights(), arch_);
    for (uint64_t layer = 0; layer < arch_.num_layers; ++layer) {
      BlockBuilder::Place place;
      place.prefix = "model.layers." + std::to_string(layer) + ".";
      place.heads = arch_.heads(layer);
      place.type = arch_.layer_types[layer];
      if (sliding(layer)) {
        if (arch_.sliding_window.value_or(0) == 0) {
          fail(ErrorKind::Parse, "{}: layer {} is tagged SlidingAttention, arch.sliding_window is missing", file(),
               layer);
        }
        place.window = *arch_.sliding_window;
      }
      const bool rotated = arch_.no_rope_layers.empty() || arch_.no_rope_layers[layer] != 0;
      place.rope = !rotated ? -1 : sliding(layer) && model_->ropes_.size() > 1 ? 1 : 0;
      model_->blocks_.push_back(builder.build(place));
      const Block& block = model_->blocks_.back();
      model_->recurrent_ = model_->recurrent_ || std::holds_alternative<DeltaNet>(block.mixer);
      model_->experts_ = model_->experts_ || std::holds_alternative<MoeFfn>(block.ffn);
    }
  }

  void head() {
    model_->embedding_ = weights().matrix("model.embed_tokens.weight", arch_.vocab_size, arch_.hidden_size);
    model_->final_norm_ = weights().vector("model.norm.weight", arch_.hidden_size);
    if (weights().has("lm_head.weight")) {
      model_->head_ = weights().matrix("lm_head.weight", arch_.vocab_size, arch_.hidden_size);
    } else if (arch_.tie_word_embeddings) {
      model_->head_ = model_->embedding_;
    } else {
      fail(ErrorKind::Parse, "{}: 'lm_head.weight' is missing and arch.tie_word_embeddings is false", file());
    }
  }

  void mtp() {
    if (!weights().has("model.mtp.eh_proj.weight")) {
      if (arch_.mtp) {
        model_->warnings_.push_back("arch.mtp is declared, its tensors are missing: decoding without drafts");
      }
      return;
    }
    if (arch_.mtp && arch_.mtp->num_layers != 1) {
      fail(ErrorKind::Unsupported, "{}: arch.mtp.num_layers is {}, one is executed", file(), arch_.mtp->num_layers);
    }
    MtpHead mtp;
    mtp.embedding_norm = weights().vector("model.mtp.enorm.weight", arch_.hidden_size);
    mtp.hidden_norm = weights().vector("model.mtp.hnorm.weight", arch_.hidden_size);
    mtp.norm = weights().vector("model.mtp.norm.weight", arch_.hidden_size);
    mtp.projection = weights().matrix("model.mtp.eh_proj.weight", arch_.hidden_size, 2 * arch_.hidden_size);
    BlockBuilder::Place place;
    place.prefix = "model.mtp.layers.0.";
    place.heads = arch_.num_attention_heads;
    place.rope = 0;
    mtp.block = BlockBuilder(weights(), arch_).build(place);
    model_->mtp_ = std::move(mtp);
  }

  // A tensor of the model that no block took would change results if it were executed: better no text than wrong text.
  // Transposed copies and stored frequencies repeat what is there already.
  void refuse_unused_tensors() {
    for (const cmf::Tensor& tensor : model_->set().tensors()) {
      const std::string_view name = tensor.name;
      if (name.substr(0, 6) != "model." && name.substr(0, 7) != "lm_head") continue;
      if (weights().find_matrix(name) || weights().find_vector(name)) continue;
      const bool repeats = name.find(".t.weight") != std::string_view::npos ||
                           name.find("rotary_emb.inv_freq") != std::string_view::npos;
      if (!repeats) {
        fail(ErrorKind::Unsupported, "{}: tensor '{}' is no part of a model that is executed here", file(),
             printable(name));
      }
    }
  }

  // Read-ahead would pull experts and skills into memory that nobody chose.
  void advise() {
    for (const cmf::Tensor& tensor : model_->set().tensors()) {
      if (is_expert(tensor.name) || is_skill(tensor.name)) {
        model_->set().advise(tensor, MappedFile::Advice::Random);
      }
    }
  }

  // The tokenizer keeps one processor busy for longer than another needs to map the weights that every first token
  // reads, so the faults of a first pass cost nothing. Whatever is not mapped by then is left to the pass.
  void text_beside_weights() {
    if (!options_.tokenizer || usable_threads() == 1) return text();
    std::atomic<bool> read{false};
    ThreadPool(2).run(2, [&](size_t which) {
      if (which == 1) return map_weights(read);
      try {
        text();
      } catch (...) {
        read = true;
        throw;
      }
      read = true;
    });
  }

  void map_weights(const std::atomic<bool>& stop) const {
    constexpr uint64_t kStep = uint64_t{8} << 20;
    for (const cmf::Tensor& tensor : model_->set().tensors()) {
      if (!every_pass_reads(tensor.name)) continue;
      const cmf::File& part = *model_->set().files()[tensor.shard];
      for (uint64_t at = 0; at < tensor.nbytes; at += kStep) {
        if (stop) return;
        part.mapping().advise(part.envelope().data.offset + tensor.offset + at, std::min(kStep, tensor.nbytes - at),
                              MappedFile::Advice::MapIn);
      }
    }
  }

  // False for experts and skills, drafts, and an embedding of which only some rows are looked up.
  bool every_pass_reads(std::string_view name) const {
    if (name == "model.embed_tokens.weight") return model_->head_.slot == model_->embedding_.slot;
    return weights().find_matrix(name) && !is_expert(name) && !name.starts_with("model.mtp.");
  }

  void text() {
    const cmf::Header& header = model_->set().header();
    if (header.chat) {
      model_->stop_ids_ = header.chat->eos_token_ids;
    }
    if (!options_.tokenizer) return;
    for (const auto& part : model_->set().files()) {
      if (part->tokenizer_json().empty()) continue;
      model_->tokenizer_ = text::Tokenizer::parse(part->tokenizer_json(), part->path());
      for (const std::string& note : model_->tokenizer_->notes()) model_->warnings_.push_back(note);
      break;
    }
    if (header.chat && header.chat->chat_template) {
      model_->template_ = text::ChatTemplate::parse(*header.chat->chat_template, file());
    }
  }

  std::shared_ptr<Model> model_;
  const cmf::Arch& arch_;
  ModelOptions options_;
};

Model::Model(std::shared_ptr<const cmf::FileSet> set) : weights_(std::move(set)) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::load(const std::string& path, const ModelOptions& options, FileSystem& files) {
  return load(cmf::FileSet::open(path, files), options);
}

std::shared_ptr<const Model> Model::load(std::shared_ptr<const cmf::FileSet> set, const ModelOptions& options) {
  return ModelBuilder(std::move(set), options).build();
}

bool Model::is_stop(uint32_t id) const noexcept {
  return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

uint64_t Model::bytes_per_token(const Binding& binding) const {
  const auto whole = [&](WeightRef ref) { return ref ? binding.matrix(ref).bytes() : 0; };
  const auto row = [&](WeightRef ref) {
    const kernels::Matrix& matrix = binding.matrix(ref);
    return matrix.rows() == 0 ? 0 : matrix.bytes() / matrix.rows();
  };
  uint64_t bytes = row(embedding_) + whole(head_);
  for (uint64_t visit = 0; visit < visits(); ++visit) {
    const uint64_t layer = visit % blocks_.size();
    if (!binding.open(layer)) continue;
    const Block& block = blocks_[layer];
    if (const auto* a = std::get_if<Attention>(&block.mixer)) {
      for (const WeightRef ref : {a->q, a->k, a->v, a->o, a->gate}) bytes += whole(ref);
    } else {
      const auto& d = std::get<DeltaNet>(block.mixer);
      for (const WeightRef ref : {d.qkv, d.z, d.b, d.a, d.qkvz, d.ba, d.out}) bytes += whole(ref);
    }
    const auto ffn = [&](const DenseFfn& f, uint64_t live) {
      return f.width == 0 ? 0 : (whole(f.gate) + whole(f.up)) / f.width * live + whole(f.down);
    };
    if (const auto* f = std::get_if<DenseFfn>(&block.ffn)) {
      const std::vector<uint32_t>* live = binding.live(visit);
      bytes += ffn(*f, live == nullptr ? f->width : live->size());
    } else {
      const auto& m = std::get<MoeFfn>(block.ffn);
      uint64_t experts = 0;
      for (const DenseFfn& e : m.experts) experts += ffn(e, e.width);
      const std::vector<uint32_t>* admitted = binding.admitted(layer);
      const uint64_t chosen = admitted == nullptr ? m.top_k : std::min<uint64_t>(m.top_k, admitted->size());
      bytes += whole(m.router) + experts / m.experts.size() * chosen;
      if (m.shared) bytes += ffn(*m.shared, m.shared->width) + whole(m.shared_gate);
    }
  }
  return bytes;
}

}  // namespace cortiq::engine
