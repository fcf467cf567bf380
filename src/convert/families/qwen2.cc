#include "convert/family.h"

namespace cortiq::convert {
namespace {

bool from_max_window_layers(const Config& config, uint64_t layer) {
  return layer >= config.maybe_count("max_window_layers").value_or(28);
}

void describe(Description& d) { window_by_switch(d, from_max_window_layers); }

}  // namespace

void add_qwen2(std::vector<Family>& families) {
  families.push_back({
      .name = "qwen2",
      .model_types = {"qwen2"},
      .architectures = {"Qwen2ForCausalLM"},
      .defaults = R"({"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28,
                      "max_position_embeddings": 32768})",
      .describe = describe,
  });
}

}  // namespace cortiq::convert
