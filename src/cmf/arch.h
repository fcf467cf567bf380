#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace cortiq::cmf {

enum class LayerType { FullAttention, SlidingAttention, LinearAttention, ShortConv, Kda };
enum class NormStyle { Qwen, Gemma };            // x̂·w and x̂·(1+w)
enum class Activation { Silu, GeluTanh, Situ };  // Situ: read and shown, not executed

struct Yarn {
  double factor = 1, beta_fast = 32, beta_slow = 1, attention_factor = 1;
  uint64_t original_max_position_embeddings = 0;
  std::optional<double> mscale_all_dim;
};

struct Mtp {
  uint64_t num_layers = 1;
  bool share_lm_head = true, share_embed = true;
  std::string hidden;  ///< additive: "pre" or "post" the final norm; empty: not said
};

struct Moe {
  uint64_t num_experts = 0, top_k = 0, moe_intermediate_size = 0;
  bool norm_topk_prob = false;
  std::optional<uint64_t> shared_expert_intermediate_size;
  bool router_sigmoid = false;
  std::optional<double> routed_scaling_factor;
};

struct LinearCore {
  std::string kind = "gated_delta_net";
  uint64_t num_heads = 0, value_head_dim = 0;
};

/// The `arch` object of the header (§2, FORMAT_FACTS §4): what the machine needs, typed. Keys that are not listed here
/// live on in the header's JSON and are kept when a file is rewritten.
struct Arch {
  std::string arch_name;
  uint64_t hidden_size = 0, intermediate_size = 0, num_layers = 0, num_attention_heads = 0, num_kv_heads = 0,
           head_dim = 0, vocab_size = 0, max_position_embeddings = 0;
  std::vector<LayerType> layer_types;
  double rms_norm_eps = 1e-6;
  NormStyle norm_style = NormStyle::Qwen;
  bool norm_style_given = true;  ///< false: the key was absent and Qwen was assumed, which deserves a warning
  double rope_theta = 10000;
  bool tie_word_embeddings = false;
  double partial_rotary_factor = 1;
  std::optional<Yarn> yarn;
  std::vector<uint64_t> attention_heads_per_layer;  ///< empty: the same everywhere
  Activation hidden_act = Activation::Silu;
  double embed_multiplier = 1;
  std::optional<double> query_pre_attn_scalar;
  std::optional<uint64_t> sliding_window, sliding_window_pattern;
  std::optional<double> rope_local_base_freq, local_partial_rotary_factor;
  std::optional<double> final_logit_softcapping, attn_logit_softcapping;
  std::vector<double> rope_freq_factors;
  std::optional<double> logit_multiplier;
  std::optional<Mtp> mtp;
  std::optional<Moe> moe;
  std::optional<LinearCore> linear_core;
  std::optional<uint64_t> linear_conv_kernel_dim, linear_num_key_heads, linear_num_value_heads, linear_key_head_dim,
      linear_value_head_dim;
  uint64_t num_loops = 1;
  bool loop_final_norm = false;
  std::vector<uint8_t> no_rope_layers;  ///< additive: 1 = rotated, 0 = not, one a layer; empty: all rotated
  std::string unsupported;              ///< a key this engine does not execute (mla, g3n, …), named; empty: none

  uint64_t heads(uint64_t layer) const {
    return attention_heads_per_layer.empty() ? num_attention_heads : attention_heads_per_layer[layer];
  }
};

/// Reads and checks an arch object; Parse with the JSON path ("arch.num_layers: …") for anything FORMAT_FACTS §4 and
/// §0 rows 59–60 refuse. `what` names the file.
Arch parse_arch(const Json& arch, std::string_view what);

/// The JSON of an arch: every required key, the others where they differ from their default, spelled as §4 says.
Json write_arch(const Arch& arch);

/// Every key with its resolved value, defaults included (what `info --json` shows).
Json resolved_arch(const Arch& arch);

}  // namespace cortiq::cmf
