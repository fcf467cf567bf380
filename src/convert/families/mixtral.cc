#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) {
  window_on_every_layer(d);
  mixture(d, "num_local_experts");
  d.arch.moe->norm_topk_prob = true;  // the family has no switch
}

}  // namespace

void add_mixtral(std::vector<Family>& families) {
  families.push_back({
      .name = "mixtral",
      .model_types = {"mixtral"},
      .architectures = {"MixtralForCausalLM"},
      .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1000000, "num_local_experts": 8,
                      "num_experts_per_tok": 2, "max_position_embeddings": 131072})",
      .handles = {"num_local_experts"},
      .renames = {{".block_sparse_moe.", ".mlp."},
                  {".w1.weight", ".gate_proj.weight"},
                  {".w3.weight", ".up_proj.weight"},
                  {".w2.weight", ".down_proj.weight"}},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
