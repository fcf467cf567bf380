#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmf/arch.h"
#include "convert/config.h"
#include "convert/layout.h"
#include "convert/rope.h"

// What a model family is: which configs it recognises, what an absent key means, how its blocks are built and how its
// checkpoints spell the tensors. Each family is one file in families/ that defines one `add_…` function; the build
// collects them (families.inc), no other code mentions a family.
namespace cortiq::convert {

/// What a family's `describe` fills. When it is called, the arch holds what all families share (sizes, heads, norms'
/// epsilon, activation, tie, every layer full attention) and the layout is a plain pre-norm dense decoder.
struct Description {
  const Config& config;  ///< the text model's part of the config, with the family's defaults
  const Config& top;     ///< the whole config; the same object unless there is a text_config
  cmf::Arch& arch;
  Layout& layout;
  RopeRules& rope;
  std::vector<std::string>& notes;
  std::vector<std::string>& warnings;
};

/// `from` inside a tensor name becomes `to`.
struct Rename {
  std::string_view from, to;
};

/// Tensors that are left out, each with its reason: names that begin with a prefix.
struct Left {
  std::string_view prefix, reason;
};

struct Family {
  std::string_view name = {};
  std::vector<std::string_view> model_types = {};
  std::vector<std::string_view> architectures = {};
  std::string_view defaults = "{}";            ///< JSON object: what an absent key means (ENGINE_FACTS §22)
  std::vector<std::string_view> handles = {};  ///< keys of config_rules.cc's table that this family interprets itself
  std::vector<Rename> same_activations = {};   ///< spellings of hidden_act that mean another here
  std::vector<Rename> renames = {};
  std::vector<Left> leaves_out = {};
  void (*describe)(Description&) = nullptr;
};

std::span<const Family> families();

/// The family of a config; Unsupported naming model_type or architecture if there is none.
const Family& find_family(const Config& top);

// Rules that several families share.

/// Every layer slides if the config has a window (mistral, mixtral, phi3).
void window_on_every_layer(Description& d);
/// Layers for which `slides` is true, if use_sliding_window (qwen); an explicit layer_types list wins.
void window_by_switch(Description& d, bool (*slides)(const Config&, uint64_t layer));
/// Tags from an explicit layer_types list; false if there is none. With `linear`, "linear_attention" is allowed.
bool tags_from_list(Description& d, bool linear = false);

/// num_experts and the rest of arch.moe from the usual keys; layers, shared expert and router remain to be said.
void mixture(Description& d, std::string_view experts_key = "num_experts");
/// Sparse layers as qwen's decoder_sparse_step and mlp_only_layers say.
void sparse_by_step(Description& d);
/// DeepSeek-style routing: sigmoid scores, selection bias, scaling, ungated shared experts, first layers dense.
void sigmoid_mixture(Description& d);

/// Gated delta net of qwen3_next and qwen3_5: linear_* keys, every n-th layer full, gated q_proj, 1+w norms.
void gated_delta_net(Description& d);

}  // namespace cortiq::convert
