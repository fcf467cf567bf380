#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) {
  if (d.config.flag("use_qk_norm")) d.layout.qk_norm = Layout::QkNorm::PerHead;
  d.layout.o_bias = Layout::Bias::Optional;  // attention_bias speaks of q, k and v here
  sigmoid_mixture(d);
}

}  // namespace

void add_glm4_moe(std::vector<Family>& families) {
  families.push_back({
      .name = "glm4_moe",
      .model_types = {"glm4_moe"},
      .architectures = {"Glm4MoeForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "n_routed_experts": 128,
                      "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 1408,
                      "first_k_dense_replace": 1, "norm_topk_prob": true, "max_position_embeddings": 131072})",
      .handles = {"use_qk_norm", "n_routed_experts"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
