#include <cmath>

#include "convert/family.h"

namespace cortiq::convert {
namespace {

void common(Description& d) {
  d.arch.norm_style = cmf::NormStyle::Gemma;
  d.arch.embed_multiplier = std::sqrt(static_cast<double>(d.arch.hidden_size));
}

// Early configs say "gelu" and mean its tanh form (ENGINE_FACTS §21 row 25); everything else has been judged by then.
void describe_gemma(Description& d) { common(d); }

void caps(Description& d) {
  d.arch.query_pre_attn_scalar = d.config.number("query_pre_attn_scalar");
  d.arch.final_logit_softcapping = d.config.maybe_number("final_logit_softcapping");
}

// Layer l is global exactly where (l + 1) mod period = 0, unless a list says otherwise.
void alternate(Description& d, uint64_t period) {
  if (tags_from_list(d) || !d.config.has("sliding_window")) return;
  for (uint64_t l = 0; l < d.arch.num_layers; ++l) {
    if ((l + 1) % period == 0) continue;
    d.arch.layer_types[l] = cmf::LayerType::SlidingAttention;
    d.arch.sliding_window = d.config.count("sliding_window");
  }
}

void describe_gemma2(Description& d) {
  common(d);
  caps(d);
  d.layout.norms = Layout::Norms::Sandwich;
  d.arch.attn_logit_softcapping = d.config.maybe_number("attn_logit_softcapping");
  alternate(d, 2);
}

void describe_gemma3(Description& d) {
  common(d);
  caps(d);
  d.layout.norms = Layout::Norms::Sandwich;
  d.layout.qk_norm = Layout::QkNorm::PerHead;
  d.rope.two_profiles = true;
  // The key exists, but this family's attention never applies it (oracle, §4).
  if (d.config.has("attn_logit_softcapping")) d.notes.push_back("attn_logit_softcapping has no effect in gemma3");
  const char* pattern = d.config.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  alternate(d, d.config.count(pattern, 6));
  if (d.top.has("vision_config")) d.notes.push_back("text only: the vision tower is left out");
}

constexpr std::string_view kGemmaHandles[] = {"query_pre_attn_scalar", "final_logit_softcapping",
                                              "attn_logit_softcapping"};

}  // namespace

void add_gemma(std::vector<Family>& families) {
  families.push_back({
      .name = "gemma",
      .model_types = {"gemma"},
      .architectures = {"GemmaForCausalLM"},
      .defaults = R"({"head_dim": 256, "num_key_value_heads": 16, "tie_word_embeddings": true, "vocab_size": 256000,
                      "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192})",
      .same_activations = {{"gelu", "gelu_pytorch_tanh"}},
      .describe = describe_gemma,
  });
  families.push_back({
      .name = "gemma2",
      .model_types = {"gemma2"},
      .architectures = {"Gemma2ForCausalLM"},
      .defaults = R"({"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 2304,
                      "intermediate_size": 9216, "num_hidden_layers": 26, "tie_word_embeddings": true, "vocab_size": 256000,
                      "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 8192, "sliding_window": 4096,
                      "query_pre_attn_scalar": 256, "final_logit_softcapping": 30, "attn_logit_softcapping": 50})",
      .handles = {std::begin(kGemmaHandles), std::end(kGemmaHandles)},
      .describe = describe_gemma2,
  });
  families.push_back({
      .name = "gemma3",
      .model_types = {"gemma3_text", "gemma3"},
      .architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
      .defaults = R"({"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 2304,
                      "intermediate_size": 9216, "num_hidden_layers": 26, "tie_word_embeddings": true, "vocab_size": 262208,
                      "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072, "sliding_window": 4096,
                      "query_pre_attn_scalar": 256, "rope_theta": 1000000, "rope_local_base_freq": 10000})",
      .handles = {"query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping", "vision_config",
                  "rope_local_base_freq"},
      .leaves_out = {{"vision_tower.", "vision tower"},
                     {"model.vision_tower.", "vision tower"},
                     {"multi_modal_projector.", "vision projector"},
                     {"model.multi_modal_projector.", "vision projector"}},
      .describe = describe_gemma3,
  });
}

}  // namespace cortiq::convert
