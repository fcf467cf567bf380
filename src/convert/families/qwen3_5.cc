#include "convert/family.h"

// Qwen3.5 and 3.6, dense and mixture, usually inside a multimodal wrapper whose text model alone is converted.
namespace cortiq::convert {
namespace {

void describe_dense(Description& d) {
  gated_delta_net(d);
  if (d.top.has("vision_config")) d.notes.push_back("text only: the vision tower is left out");
}

void describe_mixture(Description& d) {
  describe_dense(d);
  mixture(d);
  d.arch.moe->norm_topk_prob = true;  // the family has no switch
  d.arch.moe->shared_expert_intermediate_size = d.config.count("shared_expert_intermediate_size");
  d.layout.shared_gate = true;
  d.layout.fused_experts_plain = true;
}

}  // namespace

void add_qwen3_5(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen3_5",
      .model_types = {"qwen3_5", "qwen3_5_text"},
      .architectures = {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 4, "head_dim": 256, "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4,
                      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                      "linear_value_head_dim": 128, "max_position_embeddings": 32768})",
      .handles = {"vision_config", "attn_output_gate"},
      .leaves_out = {{"model.visual.", "vision tower"}, {"visual.", "vision tower"}},
      .describe = describe_dense,
  });
  families.push_back({
      .name = "qwen3_5_moe",
      .model_types = {"qwen3_5_moe", "qwen3_5_moe_text"},
      .architectures = {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 2, "head_dim": 256, "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4,
                      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
                      "linear_value_head_dim": 128, "num_experts": 256, "num_experts_per_tok": 8,
                      "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
                      "max_position_embeddings": 32768})",
      .handles = {"vision_config", "attn_output_gate", "num_experts"},
      .leaves_out = {{"model.visual.", "vision tower"}, {"visual.", "vision tower"}},
      .describe = describe_mixture,
  });
}

}  // namespace cortiq::convert
