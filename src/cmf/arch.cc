#include "cmf/arch.h"

#include <algorithm>
#include <array>
#include <limits>

#include "cmf/fields.h"

namespace cortiq::cmf {
namespace {

template <class Value>
struct Spelling {
  std::string_view text;
  Value value;
};

// One table each for reading and writing.
constexpr std::array kLayerTypes{Spelling<LayerType>{"FullAttention", LayerType::FullAttention},
                                 Spelling<LayerType>{"SlidingAttention", LayerType::SlidingAttention},
                                 Spelling<LayerType>{"LinearAttention", LayerType::LinearAttention},
                                 Spelling<LayerType>{"ShortConv", LayerType::ShortConv},
                                 Spelling<LayerType>{"Kda", LayerType::Kda}};
constexpr std::array kNormStyles{Spelling<NormStyle>{"qwen", NormStyle::Qwen},
                                 Spelling<NormStyle>{"gemma", NormStyle::Gemma}};
constexpr std::array kActivations{Spelling<Activation>{"silu", Activation::Silu},
                                  Spelling<Activation>{"gelu_tanh", Activation::GeluTanh},
                                  Spelling<Activation>{"situ", Activation::Situ}};

template <class Value, size_t N>
Value value_of(const std::array<Spelling<Value>, N>& table, const Fields& fields, const char* key, const Json& text) {
  std::string known;
  for (const auto& row : table) {
    if (text.is_string() && text.get_ref<const std::string&>() == row.text) return row.value;
    known += (known.empty() ? "" : ", ") + std::string(row.text);
  }
  fields.wrong(key, fmt::format("{} is none of {}",
                                printable(text.is_string() ? text.get<std::string>() : "the value", 60), known));
}

template <class Value, size_t N>
std::string text_of(const std::array<Spelling<Value>, N>& table, Value value) {
  return std::string(
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.value == value; })->text);
}

// A tensor's dimensions are 32 bits wide, and so is whatever is one.
constexpr uint64_t kDimension = std::numeric_limits<uint32_t>::max();

Yarn parse_yarn(const Fields& in) {
  Yarn out;
  out.factor = in.number("factor");
  out.original_max_position_embeddings = in.integer("original_max_position_embeddings");
  out.beta_fast = in.number_or("beta_fast", 32);
  out.beta_slow = in.number_or("beta_slow", 1);
  out.attention_factor = in.number_or("attention_factor", 1);
  out.mscale_all_dim = in.maybe_number("mscale_all_dim");
  return out;
}

Mtp parse_mtp(const Fields& in) {
  Mtp out;
  out.num_layers = in.integer("num_layers", kDimension);
  out.share_lm_head = in.flag_or("share_lm_head", true);
  out.share_embed = in.flag_or("share_embed", true);
  out.hidden = in.maybe_text("hidden").value_or("");
  if (!out.hidden.empty() && out.hidden != "pre" && out.hidden != "post") {
    in.wrong("hidden", fmt::format("'{}' is neither \"pre\" nor \"post\"", printable(out.hidden, 40)));
  }
  return out;
}

Moe parse_moe(const Fields& in) {
  Moe out;
  out.num_experts = in.integer("num_experts", kDimension);
  out.top_k = in.integer("top_k", kDimension);
  out.moe_intermediate_size = in.integer("moe_intermediate_size", kDimension);
  out.norm_topk_prob = in.flag_or("norm_topk_prob", false);
  out.shared_expert_intermediate_size = in.maybe_integer("shared_expert_intermediate_size", kDimension);
  out.router_sigmoid = in.flag_or("router_sigmoid", false);
  out.routed_scaling_factor = in.maybe_number("routed_scaling_factor");
  return out;
}

LinearCore parse_linear_core(const Fields& in) {
  return {in.text("kind"), in.integer("num_heads", kDimension), in.integer("value_head_dim", kDimension)};
}

// Keys of the reference whose mathematics this engine does not have (§0 of the facts names them; none is in SPEC §2).
// They have types all the same.
std::string find_unsupported(const Fields& in, const Arch& arch) {
  std::string found = arch.hidden_act == Activation::Situ ? "arch.hidden_act situ" : "";
  const auto note = [&](bool given, const std::string& key) {
    if (given && found.empty()) found = "arch." + key;
  };
  if (const auto mla = in.maybe_object("mla")) {
    for (const char* key : {"kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"}) {
      mla->integer(key, kDimension);
    }
    mla->maybe_integer("q_lora_rank", kDimension);
    mla->flag_or("nope", false);
    note(true, "mla");
  }
  if (const auto g3n = in.maybe_object("g3n")) {
    for (const char* key : {"altup_num_inputs", "laurel_rank", "ple_dim", "ple_vocab", "num_kv_shared_layers"}) {
      g3n->integer(key, kDimension);
    }
    g3n->numbers("activation_sparsity");
    note(true, "g3n");
  }
  for (const char* key : {"global_head_dim", "num_global_kv_heads", "head_clusters"}) {
    note(in.maybe_integer(key, kDimension).has_value(), key);
  }
  for (const char* key : {"global_partial_rotary_factor", "activation_situ_beta", "activation_situ_linear_beta",
                          "kda_gate_lower_bound"}) {
    note(in.maybe_number(key).has_value(), key);
  }
  note(in.flag_or("attn_v_norm", false), "attn_v_norm");
  if (const auto moe = in.maybe_object("moe")) note(moe->flag_or("router_resonance", false), "moe.router_resonance");
  if (const auto core = in.maybe_object("linear_core")) core->maybe_integer("nphase", kDimension);
  note(arch.linear_core && arch.linear_core->kind != "gated_delta_net", "linear_core.kind");
  return found;
}

void parse_layers(const Fields& in, Arch& out) {
  const Json& types = in.array("layer_types");
  if (types.size() != out.num_layers) {
    in.wrong("layer_types", fmt::format("has {} entries for {} layers", types.size(), out.num_layers));
  }
  for (const Json& type : types) out.layer_types.push_back(value_of(kLayerTypes, in, "layer_types", type));

  if (in.find_set("attention_heads_per_layer")) {
    out.attention_heads_per_layer = in.integers("attention_heads_per_layer", kDimension);
    if (out.attention_heads_per_layer.size() != out.num_layers) {
      in.wrong("attention_heads_per_layer",
               fmt::format("has {} entries for {} layers", out.attention_heads_per_layer.size(), out.num_layers));
    }
    for (const uint64_t heads : out.attention_heads_per_layer) {
      if (heads == 0 || heads % out.num_kv_heads != 0) {
        in.wrong("attention_heads_per_layer",
                 fmt::format("{} heads are not a multiple of {} key/value heads", heads, out.num_kv_heads));
      }
    }
  }
  if (in.find_set("no_rope_layers")) {
    for (const uint64_t rotated : in.integers("no_rope_layers", 1)) {
      out.no_rope_layers.push_back(static_cast<uint8_t>(rotated));
    }
    if (out.no_rope_layers.size() != out.num_layers) {
      in.wrong("no_rope_layers",
               fmt::format("has {} entries for {} layers", out.no_rope_layers.size(), out.num_layers));
    }
  }
}

template <class Value>
void put_if(Json& out, const char* key, const std::optional<Value>& value) {
  if (value) out[key] = *value;
}

template <class Value>
void put_unless(Json& out, const char* key, const Value& value, const Value& usual) {
  if (value != usual) out[key] = value;
}

Json write_yarn(const Yarn& yarn) {
  Json out = Json::object();
  out["factor"] = yarn.factor;
  out["original_max_position_embeddings"] = yarn.original_max_position_embeddings;
  out["beta_fast"] = yarn.beta_fast;
  out["beta_slow"] = yarn.beta_slow;
  out["attention_factor"] = yarn.attention_factor;
  put_if(out, "mscale_all_dim", yarn.mscale_all_dim);
  return out;
}

Json write_mtp(const Mtp& mtp) {
  Json out = Json::object();
  out["num_layers"] = mtp.num_layers;
  out["share_lm_head"] = mtp.share_lm_head;
  out["share_embed"] = mtp.share_embed;
  put_unless(out, "hidden", mtp.hidden, std::string());
  return out;
}

Json write_moe(const Moe& moe) {
  Json out = Json::object();
  out["num_experts"] = moe.num_experts;
  out["top_k"] = moe.top_k;
  out["moe_intermediate_size"] = moe.moe_intermediate_size;
  out["norm_topk_prob"] = moe.norm_topk_prob;
  put_if(out, "shared_expert_intermediate_size", moe.shared_expert_intermediate_size);
  put_unless(out, "router_sigmoid", moe.router_sigmoid, false);
  put_if(out, "routed_scaling_factor", moe.routed_scaling_factor);
  return out;
}

Json write_linear_core(const LinearCore& core) {
  Json out = Json::object();
  out["kind"] = core.kind;
  out["num_heads"] = core.num_heads;
  out["value_head_dim"] = core.value_head_dim;
  return out;
}

// `all`: every key with its value, null where it is absent; otherwise only what a reader would not assume anyway.
Json write(const Arch& arch, bool all) {
  Json out = Json::object();
  const auto optional = [&](const char* key, const auto& value) {
    if (value) {
      out[key] = *value;
    } else if (all) {
      out[key] = nullptr;
    }
  };
  const auto unless = [&](const char* key, const auto& value, const auto& usual) {
    if (all || value != usual) out[key] = value;
  };
  const auto list = [&](const char* key, const auto& values) {
    if (!values.empty()) {
      out[key] = values;
    } else if (all) {
      out[key] = nullptr;
    }
  };
  const auto object = [&](const char* key, const auto& value, auto writer) {
    if (value) {
      out[key] = writer(*value);
    } else if (all) {
      out[key] = nullptr;
    }
  };

  out["arch_name"] = arch.arch_name;
  out["hidden_size"] = arch.hidden_size;
  out["intermediate_size"] = arch.intermediate_size;
  out["num_layers"] = arch.num_layers;
  out["num_attention_heads"] = arch.num_attention_heads;
  out["num_kv_heads"] = arch.num_kv_heads;
  out["head_dim"] = arch.head_dim;
  out["vocab_size"] = arch.vocab_size;
  Json types = Json::array();
  for (const LayerType type : arch.layer_types) types.push_back(text_of(kLayerTypes, type));
  out["layer_types"] = std::move(types);
  out["rms_norm_eps"] = arch.rms_norm_eps;
  out["norm_style"] = text_of(kNormStyles, arch.norm_style);
  out["rope_theta"] = arch.rope_theta;
  out["tie_word_embeddings"] = arch.tie_word_embeddings;
  out["partial_rotary_factor"] = arch.partial_rotary_factor;
  out["max_position_embeddings"] = arch.max_position_embeddings;
  object("yarn", arch.yarn, write_yarn);
  list("attention_heads_per_layer", arch.attention_heads_per_layer);
  unless("hidden_act", text_of(kActivations, arch.hidden_act), text_of(kActivations, Activation::Silu));
  unless("embed_multiplier", arch.embed_multiplier, 1.0);
  optional("query_pre_attn_scalar", arch.query_pre_attn_scalar);
  optional("sliding_window", arch.sliding_window);
  optional("sliding_window_pattern", arch.sliding_window_pattern);
  optional("rope_local_base_freq", arch.rope_local_base_freq);
  optional("local_partial_rotary_factor", arch.local_partial_rotary_factor);
  optional("final_logit_softcapping", arch.final_logit_softcapping);
  optional("attn_logit_softcapping", arch.attn_logit_softcapping);
  list("rope_freq_factors", arch.rope_freq_factors);
  optional("logit_multiplier", arch.logit_multiplier);
  object("mtp", arch.mtp, write_mtp);
  object("moe", arch.moe, write_moe);
  object("linear_core", arch.linear_core, write_linear_core);
  optional("linear_conv_kernel_dim", arch.linear_conv_kernel_dim);
  optional("linear_num_key_heads", arch.linear_num_key_heads);
  optional("linear_num_value_heads", arch.linear_num_value_heads);
  optional("linear_key_head_dim", arch.linear_key_head_dim);
  optional("linear_value_head_dim", arch.linear_value_head_dim);
  unless("num_loops", arch.num_loops, uint64_t{1});
  unless("loop_final_norm", arch.loop_final_norm, false);
  list("no_rope_layers", arch.no_rope_layers);
  return out;
}

}  // namespace

Arch parse_arch(const Json& json, std::string_view what) {
  const Fields in(json, "arch", what);
  Arch out;
  out.arch_name = in.text("arch_name");
  out.hidden_size = in.integer("hidden_size", kDimension);
  out.intermediate_size = in.integer("intermediate_size", kDimension);
  out.num_layers = in.integer("num_layers", kDimension);
  out.num_attention_heads = in.integer("num_attention_heads", kDimension);
  out.num_kv_heads = in.integer("num_kv_heads", kDimension);
  out.head_dim = in.integer("head_dim", kDimension);
  out.vocab_size = in.integer("vocab_size", kDimension);
  out.max_position_embeddings = in.integer("max_position_embeddings");
  if (out.num_kv_heads == 0 || out.num_attention_heads % out.num_kv_heads != 0) {
    in.wrong("num_kv_heads",
             fmt::format("{} does not divide {} attention heads", out.num_kv_heads, out.num_attention_heads));
  }
  parse_layers(in, out);

  out.rms_norm_eps = in.number("rms_norm_eps");
  if (out.rms_norm_eps < 0) in.wrong("rms_norm_eps", "must not be negative");
  const Json* style = in.find("norm_style");
  out.norm_style_given = style != nullptr;
  if (style) out.norm_style = value_of(kNormStyles, in, "norm_style", *style);
  out.rope_theta = in.number_or("rope_theta", 10000);
  if (out.rope_theta <= 0) in.wrong("rope_theta", "must be larger than 0");
  out.tie_word_embeddings = in.flag_or("tie_word_embeddings", false);
  out.partial_rotary_factor = in.number_or("partial_rotary_factor", 1);
  if (const auto yarn = in.maybe_object("yarn")) out.yarn = parse_yarn(*yarn);
  if (const Json* act = in.find("hidden_act")) out.hidden_act = value_of(kActivations, in, "hidden_act", *act);
  out.embed_multiplier = in.number_or("embed_multiplier", 1);
  out.query_pre_attn_scalar = in.maybe_number("query_pre_attn_scalar");
  if (out.query_pre_attn_scalar && *out.query_pre_attn_scalar <= 0) {
    in.wrong("query_pre_attn_scalar", "must be larger than 0");
  }
  out.sliding_window = in.maybe_integer("sliding_window");
  out.sliding_window_pattern = in.maybe_integer("sliding_window_pattern");
  out.rope_local_base_freq = in.maybe_number("rope_local_base_freq");
  if (out.rope_local_base_freq && *out.rope_local_base_freq <= 0)
    in.wrong("rope_local_base_freq", "must be larger than 0");
  out.local_partial_rotary_factor = in.maybe_number("local_partial_rotary_factor");
  out.final_logit_softcapping = in.maybe_number("final_logit_softcapping");
  out.attn_logit_softcapping = in.maybe_number("attn_logit_softcapping");
  if (in.find_set("rope_freq_factors")) {
    out.rope_freq_factors = in.numbers("rope_freq_factors");
    for (const double factor : out.rope_freq_factors) {
      if (factor <= 0) in.wrong("rope_freq_factors", "must be larger than 0");
    }
  }
  out.logit_multiplier = in.maybe_number("logit_multiplier");
  if (const auto mtp = in.maybe_object("mtp")) out.mtp = parse_mtp(*mtp);
  if (const auto moe = in.maybe_object("moe")) out.moe = parse_moe(*moe);
  if (const auto core = in.maybe_object("linear_core")) out.linear_core = parse_linear_core(*core);
  out.linear_conv_kernel_dim = in.maybe_integer("linear_conv_kernel_dim", kDimension);
  out.linear_num_key_heads = in.maybe_integer("linear_num_key_heads", kDimension);
  out.linear_num_value_heads = in.maybe_integer("linear_num_value_heads", kDimension);
  out.linear_key_head_dim = in.maybe_integer("linear_key_head_dim", kDimension);
  out.linear_value_head_dim = in.maybe_integer("linear_value_head_dim", kDimension);
  out.num_loops = in.integer_or("num_loops", 1, 1024);
  if (out.num_loops == 0) in.wrong("num_loops", "must be at least 1");
  out.loop_final_norm = in.flag_or("loop_final_norm", false);
  out.unsupported = find_unsupported(in, out);
  return out;
}

Json write_arch(const Arch& arch) { return write(arch, false); }

Json resolved_arch(const Arch& arch) { return write(arch, true); }

}  // namespace cortiq::cmf
