#include "convert/family.h"

// Phi-3, 3.5, 4 and 4-mini: fused projections, longrope under three names (ENGINE_FACTS §5.5).
namespace cortiq::convert {
namespace {

void describe(Description& d) {
  window_on_every_layer(d);
  d.rope.longrope_names = {"longrope", "su", "yarn"};
  d.rope.original_at_top = true;
}

}  // namespace

void add_phi3(std::vector<Family>& families) {
  families.push_back({
      .name = "phi3",
      .model_types = {"phi3"},
      .architectures = {"Phi3ForCausalLM"},
      .defaults =
          R"({"original_max_position_embeddings": 4096, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})",
      .describe = describe,
  });
}

}  // namespace cortiq::convert
