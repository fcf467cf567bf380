#include "convert/family.h"

#include <algorithm>

namespace cortiq::convert {

// families.inc lists the files of families/, one FAMILY(name) each; it is written when the build is configured.
#define FAMILY(name) void add_##name(std::vector<Family>& families);
#include "convert/families.inc"
#undef FAMILY

namespace {

using cmf::LayerType;

std::vector<Family> collect() {
  std::vector<Family> out;
#define FAMILY(name) add_##name(out);
#include "convert/families.inc"
#undef FAMILY
  return out;
}

bool contains(const std::vector<std::string_view>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> all = collect();
  return all;
}

const Family& find_family(const Config& top) {
  const auto type = top.text("model_type");
  if (!type) fail(ErrorKind::Unsupported, "{}'model_type' is missing: the family cannot be known", top.where());
  for (const Family& family : families()) {
    if (!contains(family.model_types, *type)) continue;
    for (const std::string& architecture : top.texts("architectures")) {
      if (!contains(family.architectures, architecture)) {
        fail(ErrorKind::Unsupported, "{}architectures names '{}', which is no causal language model of the family '{}'",
             top.where(), printable(architecture, 80), family.name);
      }
    }
    return family;
  }
  std::string known;
  for (const Family& family : families()) {
    for (const std::string_view name : family.model_types) known += (known.empty() ? "" : ", ") + std::string(name);
  }
  fail(ErrorKind::Unsupported, "{}{}: this family is not supported; supported are {}", top.where(),
       top.shown("model_type"), known);
}

void window_on_every_layer(Description& d) {
  if (!d.config.has("sliding_window")) return;
  d.arch.sliding_window = d.config.count("sliding_window");
  d.arch.layer_types.assign(d.arch.num_layers, LayerType::SlidingAttention);
}

bool tags_from_list(Description& d, bool linear) {
  const std::vector<std::string> tags = d.config.texts("layer_types");
  if (tags.empty()) return false;
  if (tags.size() != d.arch.num_layers) {
    fail(ErrorKind::Parse, "{}layer_types has {} entries for {} layers", d.config.where(), tags.size(),
         d.arch.num_layers);
  }
  for (uint64_t l = 0; l < d.arch.num_layers; ++l) {
    LayerType& type = d.arch.layer_types[l];
    if (tags[l] == "full_attention") {
      type = LayerType::FullAttention;
    } else if (tags[l] == "sliding_attention") {
      type = LayerType::SlidingAttention;
    } else if (linear && tags[l] == "linear_attention") {
      type = LayerType::LinearAttention;
    } else {
      fail(ErrorKind::Unsupported, "{}layer_types[{}] is '{}', which is not supported for this family",
           d.config.where(), l, printable(tags[l], 60));
    }
  }
  if (std::find(d.arch.layer_types.begin(), d.arch.layer_types.end(), LayerType::SlidingAttention) !=
      d.arch.layer_types.end()) {
    if (!d.config.has("sliding_window")) d.config.malformed("sliding_window", "a window for the sliding layers");
    d.arch.sliding_window = d.config.count("sliding_window");
  }
  return true;
}

void window_by_switch(Description& d, bool (*slides)(const Config&, uint64_t layer)) {
  const bool on = d.config.flag("use_sliding_window") && d.config.has("sliding_window");
  if (tags_from_list(d)) {
    if (d.arch.sliding_window && !on) {
      d.config.refuse("use_sliding_window", "yet layer_types has sliding layers; one of the two must be changed");
    }
    return;
  }
  if (!on) return;
  for (uint64_t l = 0; l < d.arch.num_layers; ++l) {
    if (!slides(d.config, l)) continue;
    d.arch.layer_types[l] = LayerType::SlidingAttention;
    d.arch.sliding_window = d.config.count("sliding_window");
  }
}

void mixture(Description& d, std::string_view experts_key) {
  cmf::Moe moe;
  moe.num_experts = d.config.count(experts_key);
  moe.top_k = d.config.count("num_experts_per_tok");
  if (moe.top_k > moe.num_experts) {
    d.config.malformed("num_experts_per_tok", fmt::format("at most the {} experts", moe.num_experts));
  }
  moe.moe_intermediate_size = d.config.count("moe_intermediate_size", d.arch.intermediate_size);
  moe.norm_topk_prob = d.config.flag("norm_topk_prob");
  d.arch.moe = moe;
  d.layout.sparse.assign(d.arch.num_layers, 1);
}

void sparse_by_step(Description& d) {
  const uint64_t step = d.config.count("decoder_sparse_step", 1);
  const std::vector<uint64_t> dense = d.config.counts("mlp_only_layers");
  for (uint64_t l = 0; l < d.arch.num_layers; ++l) {
    d.layout.sparse[l] = (l + 1) % step == 0 && std::find(dense.begin(), dense.end(), l) == dense.end();
  }
}

void sigmoid_mixture(Description& d) {
  mixture(d, "n_routed_experts");
  cmf::Moe& moe = *d.arch.moe;
  if (const auto scoring = d.config.text("scoring_func"); scoring && *scoring != "sigmoid" && *scoring != "noaux_tc") {
    d.config.refuse("scoring_func", "this family's router is a sigmoid");
  }
  if (const auto method = d.config.text("topk_method"); method && *method != "noaux_tc") {
    d.config.refuse("topk_method", "only noaux_tc (scores plus a selection bias) is supported");
  }
  moe.router_sigmoid = true;
  d.layout.expert_bias = true;
  if (const double scale = d.config.number("routed_scaling_factor", 1); scale != 1) moe.routed_scaling_factor = scale;
  const uint64_t shared = d.config.maybe_count("n_shared_experts").value_or(0);
  if (shared > 0) moe.shared_expert_intermediate_size = shared * moe.moe_intermediate_size;
  const uint64_t first = d.config.maybe_count("first_k_dense_replace").value_or(0);
  for (uint64_t l = 0; l < d.arch.num_layers; ++l) d.layout.sparse[l] = l >= first;
}

void gated_delta_net(Description& d) {
  cmf::Arch& arch = d.arch;
  arch.norm_style = cmf::NormStyle::Gemma;
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  d.layout.gated_query = d.config.flag("attn_output_gate", true);
  d.rope.sections = true;
  if (!tags_from_list(d, true)) {
    const uint64_t interval = d.config.count("full_attention_interval", 4);
    for (uint64_t l = 0; l < arch.num_layers; ++l) {
      if ((l + 1) % interval != 0) arch.layer_types[l] = LayerType::LinearAttention;
    }
  }
  arch.linear_conv_kernel_dim = d.config.count("linear_conv_kernel_dim");
  arch.linear_num_key_heads = d.config.count("linear_num_key_heads");
  arch.linear_num_value_heads = d.config.count("linear_num_value_heads");
  arch.linear_key_head_dim = d.config.count("linear_key_head_dim");
  arch.linear_value_head_dim = d.config.count("linear_value_head_dim");
  if (*arch.linear_num_value_heads % *arch.linear_num_key_heads != 0) {
    d.config.malformed("linear_num_value_heads",
                       fmt::format("a multiple of the {} key heads", *arch.linear_num_key_heads));
  }
  arch.linear_core = cmf::LinearCore{"gated_delta_net", *arch.linear_num_value_heads, *arch.linear_value_head_dim};
}

}  // namespace cortiq::convert
