#include "convert/family.h"

namespace cortiq::convert {
namespace {

void heads_per_layer(Description& d) {
  cmf::Arch& arch = d.arch;
  arch.attention_heads_per_layer = d.config.counts("num_attention_heads_per_layer");
  if (arch.attention_heads_per_layer.empty()) return;
  if (arch.attention_heads_per_layer.size() != arch.num_layers) {
    fail(ErrorKind::Parse, "{}num_attention_heads_per_layer has {} entries for {} layers", d.config.where(),
         arch.attention_heads_per_layer.size(), arch.num_layers);
  }
  for (const uint64_t heads : arch.attention_heads_per_layer) {
    if (heads == 0 || heads % arch.num_kv_heads != 0) {
      d.config.malformed("num_attention_heads_per_layer",
                         fmt::format("multiples of the {} key heads", arch.num_kv_heads));
    }
  }
}

void sparse_layers(Description& d) {
  const std::vector<std::string> types = d.config.texts("mlp_layer_types");
  if (types.empty()) {
    d.layout.sparse[0] = 0;
    return;
  }
  if (types.size() != d.arch.num_layers) {
    fail(ErrorKind::Parse, "{}mlp_layer_types has {} entries for {} layers", d.config.where(), types.size(),
         d.arch.num_layers);
  }
  for (uint64_t l = 0; l < types.size(); ++l) {
    if (types[l] != "dense" && types[l] != "sparse")
      d.config.malformed("mlp_layer_types", "dense or sparse, layer by layer,");
    d.layout.sparse[l] = types[l] == "sparse";
  }
}

// softplus gate per head (true, "per-head") or per channel ("per-element"); the tensor's rows say which.
bool gated(const Description& d) {
  const Json* value = d.config.find("gating");
  if (!value || value->is_null()) return true;
  if (value->is_boolean()) return value->get<bool>();
  const std::string kind = d.config.text("gating").value_or("");
  if (kind != "per-head" && kind != "per-element")
    d.config.refuse("gating", "only per-head and per-element are supported");
  return true;
}

void describe(Description& d) {
  tags_from_list(d);
  heads_per_layer(d);
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  d.layout.softplus_gate = gated(d);
  d.layout.expert_bias = true;
  d.rope.two_profiles = true;
  mixture(d);
  sparse_layers(d);
  cmf::Moe& moe = *d.arch.moe;
  moe.norm_topk_prob = true;  // the family has no switch
  moe.router_sigmoid = true;
  moe.shared_expert_intermediate_size = d.config.count("shared_expert_intermediate_size", moe.moe_intermediate_size);
  if (const double scale = d.config.number("moe_routed_scaling_factor", 1); scale != 1)
    moe.routed_scaling_factor = scale;
}

}  // namespace

void add_laguna(std::vector<Family>& families) {
  families.push_back({
      .name = "laguna",
      .model_types = {"laguna"},
      .architectures = {"LagunaForCausalLM"},
      .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "sliding_window": 512, "num_experts": 256,
                      "num_experts_per_tok": 8, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
                      "max_position_embeddings": 131072})",
      .handles = {"num_experts", "num_attention_heads_per_layer", "rope_local_base_freq"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
