#include "convert/family.h"

// mistral, ministral and ministral3 differ in defaults and in how windows are given.
namespace cortiq::convert {
namespace {

void describe_mistral(Description& d) { window_on_every_layer(d); }

void describe_ministral(Description& d) {
  if (!tags_from_list(d)) window_on_every_layer(d);
}

}  // namespace

void add_mistral(std::vector<Family>& families) {
  families.push_back({
      .name = "mistral",
      .model_types = {"mistral"},
      .architectures = {"MistralForCausalLM"},
      .defaults = R"({"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072})",
      .describe = describe_mistral,
  });
  families.push_back({
      .name = "ministral",
      .model_types = {"ministral"},
      .architectures = {"MinistralForCausalLM"},
      .defaults = R"({"num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072})",
      .describe = describe_ministral,
  });
  families.push_back({
      .name = "ministral3",
      .model_types = {"ministral3"},
      .architectures = {"Ministral3ForCausalLM"},
      .defaults =
          R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 262144})",
      .describe = describe_ministral,
  });
}

}  // namespace cortiq::convert
