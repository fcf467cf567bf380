#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) {
  gated_delta_net(d);
  mixture(d);
  sparse_by_step(d);
  d.arch.moe->shared_expert_intermediate_size = d.config.count("shared_expert_intermediate_size");
  d.layout.shared_gate = true;
}

}  // namespace

void add_qwen3_next(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen3_next",
      .model_types = {"qwen3_next"},
      .architectures = {"Qwen3NextForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 2, "head_dim": 256, "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4,
                      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                      "linear_value_head_dim": 128, "num_experts": 512, "num_experts_per_tok": 10,
                      "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "norm_topk_prob": true,
                      "max_position_embeddings": 32768})",
      .handles = {"num_experts", "num_local_experts", "attn_output_gate"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
