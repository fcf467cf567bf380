#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) {
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  tags_from_list(d);
  sigmoid_mixture(d);
}

}  // namespace

void add_dots1(std::vector<Family>& families) {
  families.push_back({
      .name = "dots1",
      .model_types = {"dots1"},
      .architectures = {"Dots1ForCausalLM"},
      .defaults = R"({"first_k_dense_replace": 0, "norm_topk_prob": false, "sliding_window": 4096,
                      "max_position_embeddings": 2048})",
      .handles = {"n_routed_experts"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
