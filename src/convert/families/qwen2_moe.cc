#include "convert/family.h"

namespace cortiq::convert {
namespace {

// Even layers below max_window_layers (ENGINE_FACTS §4).
bool slides(const Config& config, uint64_t layer) {
  return layer % 2 == 0 && layer < config.maybe_count("max_window_layers").value_or(28);
}

void describe(Description& d) {
  window_by_switch(d, slides);
  if (d.config.flag("qkv_bias")) {
    d.layout.qkv_bias = Layout::Bias::Required;
    d.layout.bias_key = "qkv_bias";
  }
  mixture(d);
  sparse_by_step(d);
  d.arch.moe->shared_expert_intermediate_size = d.config.count("shared_expert_intermediate_size");
  d.layout.shared_gate = true;
}

}  // namespace

void add_qwen2_moe(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen2_moe",
      .model_types = {"qwen2_moe"},
      .architectures = {"Qwen2MoeForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
                      "shared_expert_intermediate_size": 5632, "norm_topk_prob": false, "sliding_window": 4096,
                      "max_position_embeddings": 32768})",
      .handles = {"num_experts", "num_local_experts"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
