#include "convert/config_rules.h"

#include <algorithm>
#include <array>
#include <set>

namespace cortiq::convert {
namespace {

// A key that changes what a model computes, the values with which it changes nothing (a JSON list; null and absence
// always are among them), and why others are refused.
struct Rule {
  std::string_view key, neutral, why;
};

constexpr std::array kRules{
    Rule{"is_encoder_decoder", "[false]", "encoder-decoder models are not supported"},
    Rule{"add_cross_attention", "[false]", "cross-attention is not supported"},
    Rule{"cross_attention_layers", "[[]]", "cross-attention is not supported"},
    Rule{"use_bidirectional_attention", "[false]", "attention is causal here; this is an embedding model"},
    Rule{"vision_config", "[{}]", "image inputs are not supported for this family"},
    Rule{"audio_config", "[{}]", "audio inputs are not supported"},
    Rule{"kv_lora_rank", "[]", "latent attention (MLA) is not supported"},
    Rule{"q_lora_rank", "[]", "latent attention (MLA) is not supported"},
    Rule{"attention_chunk_size", "[]", "chunked attention is not supported"},
    Rule{"dual_chunk_attention_config", "[{}]", "dual chunk attention is not supported"},
    Rule{"swa_attention_sink_enabled", "[false]", "attention sinks are not supported"},
    Rule{"clip_qkv", "[]", "clipped projections are not supported"},
    Rule{"alibi", "[false]", "only rotary positions are supported"},
    Rule{"position_embedding_type", R"(["rope", "rotary"])", "only rotary positions are supported"},
    Rule{"rotary_pct", "[1]", "this spelling belongs to families that are not supported"},
    Rule{"rope_interleave", "[false]", "interleaved rotary pairs are not supported for this family"},
    Rule{"rope_interleaved", "[false]", "interleaved rotary pairs are not supported for this family"},
    Rule{"rope_local_base_freq", "[]", "this family has one rotary base"},
    Rule{"no_rope_layers", "[[]]", "layers without rotary positions are not supported for this family"},
    Rule{"no_rope_layer_interval", "[0]", "layers without rotary positions are not supported for this family"},
    Rule{"use_parallel_residual", "[false]", "parallel blocks are not supported"},
    Rule{"parallel_attn", "[false]", "parallel blocks are not supported"},
    Rule{"residual_multiplier", "[1]", "a residual multiplier is not supported"},
    Rule{"attention_multiplier", "[]", "an attention multiplier is not supported"},
    Rule{"embedding_multiplier", "[1]", "an embedding multiplier is not supported for this family"},
    Rule{"logits_scaling", "[1]", "scaled logits are not supported for this family"},
    Rule{"logit_scale", "[1]", "scaled logits are not supported for this family"},
    Rule{"scale_emb", "[1]", "an embedding multiplier is not supported for this family"},
    Rule{"scale_depth", "[]", "a depth multiplier is not supported"},
    Rule{"attn_logit_softcapping", "[]", "this family has no cap on attention scores"},
    Rule{"final_logit_softcapping", "[]", "this family has no cap on logits"},
    Rule{"query_pre_attn_scalar", "[]", "this family scales scores by its head_dim"},
    Rule{"swiglu_limit", "[]", "clamped activations are not supported"},
    Rule{"attn_output_gate", "[false]", "gated attention is not supported for this family"},
    Rule{"qk_layernorm", "[false]", "layer norms on queries and keys are not supported"},
    Rule{"use_qk_norm", "[false]", "norms on queries and keys are not supported for this family"},
    Rule{"num_kv_shared_layers", "[0]", "shared key/value layers are not supported"},
    Rule{"hidden_size_per_layer_input", "[0]", "inputs per layer are not supported"},
    Rule{"num_experts", "[0, 1]", "this family is dense"},
    Rule{"num_local_experts", "[0, 1]", "this family is dense"},
    Rule{"n_routed_experts", "[0]", "this family is dense"},
    Rule{"n_group", "[1]", "group-limited routing has no field in the header"},
    Rule{"topk_group", "[1]", "group-limited routing has no field in the header"},
    Rule{"moe_layer_freq", "[1]", "only 1 is supported"},
    Rule{"moe_router_logit_softcapping", "[0]", "a cap on router scores is not supported"},
    Rule{"moe_apply_router_weight_on_input", "[false]", "router weights on the inputs are not supported"},
    Rule{"num_attention_heads_per_layer", "[[]]", "head counts per layer are not supported for this family"},
    Rule{"num_loops", "[1]", "looped stacks are not supported for this family"},
    Rule{"loop_loss_weights", "[[]]", "looped stacks are not supported for this family"},
    Rule{"emb_neighbor_num", "[0]", "neighbour embeddings are not supported"},
    Rule{"enable_double_loop_split", "[false]", "split loops are not supported"},
    Rule{"loop_share_kv", "[false]", "a key/value cache shared by passes is not supported"},
    Rule{"enable_hyper_connection", "[false]", "hyper-connections are not supported"},
    Rule{"enable_mhc", "[false]", "hyper-connections are not supported"},
    Rule{"enable_depth_attention", "[false]", "depth attention is not supported"},
    Rule{"mtp_use_dedicated_embeddings", "[false]", "a draft head with its own embeddings is not supported"},
};

// Keys that say nothing about the computation of a trained model, or that repeat what the tensors say.
constexpr std::string_view kHarmless[] = {"_name_or_path",
                                          "architectures",
                                          "attention_dropout",
                                          "attention_probs_dropout_prob",
                                          "attn_implementation",
                                          "auto_map",
                                          "boi_token_index",
                                          "cache_implementation",
                                          "decoder_start_token_id",
                                          "dtype",
                                          "embd_pdrop",
                                          "eoi_token_index",
                                          "embedding_dropout",
                                          "head_dropout",
                                          "hidden_dropout",
                                          "hidden_dropout_prob",
                                          "id2label",
                                          "image_token_id",
                                          "image_token_index",
                                          "initializer_range",
                                          "interpolate_factor",
                                          "label2id",
                                          "language_model_only",
                                          "mamba_ssm_dtype",
                                          "max_window_layers",
                                          "mm_tokens_per_image",
                                          "model_type",
                                          "original_max_position_embeddings",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_router_logits",
                                          "pretraining_tp",
                                          "problem_type",
                                          "residual_dropout",
                                          "resid_pdrop",
                                          "return_dict",
                                          "rope_parameters",
                                          "rope_scaling",
                                          "rope_theta",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "router_z_loss_coef",
                                          "sep_token_id",
                                          "sliding_window",
                                          "text_config",
                                          "tie_encoder_decoder",
                                          "tie_word_embeddings",
                                          "tokenizer_class",
                                          "torch_dtype",
                                          "transformers_version",
                                          "unsloth_fixed",
                                          "use_cache",
                                          "use_mrope_text",
                                          "use_return_dict",
                                          "use_sliding_window",
                                          "video_token_id",
                                          "vision_config",
                                          "vision_end_token_id",
                                          "vision_start_token_id",
                                          "vocab_size_per_layer_input",
                                          "partial_rotary_factor",
                                          "full_attention_interval",
                                          "mtp_num_hidden_layers",
                                          "num_nextn_predict_layers",
                                          "full_attn_mod",
                                          "bos_token_id",
                                          "eos_token_id",
                                          "pad_token_id",
                                          "layer_types"};

void refuse_quantised(const Config& config) {
  const auto block = config.inner("quantization_config");
  if (!block) return;
  const std::string method = block->text("quant_method").value_or("unknown");
  fail(ErrorKind::Unsupported,
       "{}quantization_config: quant_method is '{}': the checkpoint is already quantised; convert the original weights",
       config.where(), printable(method, 60));
}

}  // namespace

void check_rules(const Config& config, const Family& family) {
  refuse_quantised(config);
  for (const Rule& rule : kRules) {
    if (std::find(family.handles.begin(), family.handles.end(), rule.key) != family.handles.end()) continue;
    const Json* value = config.written(rule.key);
    if (!value || value->is_null()) continue;
    const Json neutral = parse_json(rule.neutral, "rules");
    if (std::find(neutral.begin(), neutral.end(), *value) == neutral.end()) config.refuse(rule.key, rule.why);
  }
}

void note_unread(const Config& top, const Config& config, std::vector<std::string>& notes) {
  std::string list;
  std::set<std::string> named;
  for (const Config* level : {&top, &config}) {
    if (level == &top && &top.object() == &config.object()) continue;  // not nested: one object, read as `config`
    for (const std::string& key : level->unread()) {
      const bool known = std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
      if (known || !named.insert(key).second) continue;
      list += (list.empty() ? "" : ", ") + printable(key, 60);
    }
  }
  if (!list.empty()) notes.push_back(fmt::format("{}not looked at: {}", top.where(), list));
}

}  // namespace cortiq::convert
