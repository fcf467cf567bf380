#include "convert/family.h"

namespace cortiq::convert {
namespace {

bool every_layer(const Config&, uint64_t) { return true; }

void describe(Description& d) {
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  window_by_switch(d, every_layer);
  mixture(d);
  sparse_by_step(d);
}

}  // namespace

void add_qwen3_moe(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen3_moe",
      .model_types = {"qwen3_moe"},
      .architectures = {"Qwen3MoeForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                      "norm_topk_prob": false, "sliding_window": 4096, "max_position_embeddings": 32768})",
      .handles = {"num_experts", "num_local_experts"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
