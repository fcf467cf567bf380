#include <algorithm>

#include "convert/family.h"

namespace cortiq::convert {
namespace {

// An angle divided by this is nothing in f32: the layer's vectors are not rotated.
constexpr double kNoRotation = 1e30;

// Layers without rotary positions, said so that every reader of the format computes them: rotated layers are sliding
// ones whose window is the whole context, with a base of their own; the others are full ones whose angles vanish
// (ENGINE_FACTS §5.7, decisions 19).
void describe(Description& d) {
  cmf::Arch& arch = d.arch;
  if (d.config.flag("use_sliding_window"))
    d.config.refuse("use_sliding_window", "windows beside unrotated layers have no field");
  tags_from_list(d);
  std::vector<uint64_t> rotated = d.config.counts("no_rope_layers");
  if (rotated.empty()) {
    const uint64_t interval = d.config.count("no_rope_layer_interval", 4);
    for (uint64_t l = 0; l < arch.num_layers; ++l) rotated.push_back((l + 1) % interval != 0);
  }
  if (rotated.size() != arch.num_layers) {
    fail(ErrorKind::Parse, "{}no_rope_layers has {} entries for {} layers", d.config.where(), rotated.size(),
         arch.num_layers);
  }
  if (std::find(rotated.begin(), rotated.end(), 0) == rotated.end()) return;
  if (const auto scaling = d.config.inner("rope_scaling"); scaling && !scaling->object().empty()) {
    const auto kind = scaling->text(scaling->has("rope_type") ? "rope_type" : "type").value_or("default");
    if (kind != "default") d.config.refuse("rope_scaling", "a scaled table beside unrotated layers has no field");
  }
  for (uint64_t l = 0; l < arch.num_layers; ++l) {
    if (rotated[l] != 0) arch.layer_types[l] = cmf::LayerType::SlidingAttention;
  }
  arch.sliding_window = arch.max_position_embeddings;
  d.rope.unrotated_full_layers = kNoRotation;
  d.notes.push_back(
      "layers without rotary positions are written as full attention with vanishing angles, the others as "
      "sliding attention over the whole context");
}

}  // namespace

void add_smollm3(std::vector<Family>& families) {
  families.push_back({
      .name = "smollm3",
      .model_types = {"smollm3"},
      .architectures = {"SmolLM3ForCausalLM"},
      .defaults = R"({"num_key_value_heads": 4, "rope_theta": 2000000, "tie_word_embeddings": true,
                      "no_rope_layer_interval": 4, "max_position_embeddings": 32768})",
      .handles = {"no_rope_layers", "no_rope_layer_interval"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
