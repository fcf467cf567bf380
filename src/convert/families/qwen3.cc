#include "convert/family.h"

namespace cortiq::convert {
namespace {

bool from_max_window_layers(const Config& config, uint64_t layer) {
  return layer >= config.maybe_count("max_window_layers").value_or(28);
}

void describe(Description& d) {
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  window_by_switch(d, from_max_window_layers);
}

}  // namespace

void add_qwen3(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen3",
      .model_types = {"qwen3"},
      .architectures = {"Qwen3ForCausalLM"},
      .defaults = R"({"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28,
                      "max_position_embeddings": 32768})",
      .describe = describe,
  });
}

}  // namespace cortiq::convert
