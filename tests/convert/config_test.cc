#include "convert/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "convert/describe.h"
#include "convert/fake_source.h"
#include "convert/support.h"

namespace cortiq::convert {
namespace {

namespace fs = std::filesystem;

bool whole_word(const std::string& text, const std::string& word) {
  const auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const bool left = at > 0 && inside(text[at - 1]);
    const bool right = at + word.size() < text.size() && inside(text[at + word.size()]);
    if (!left && !right) return true;
  }
  return false;
}

Checkpoint bare(const Json& config) {
  Checkpoint out;
  out.path = "somewhere";
  out.config_path = "config.json";
  out.config = config;
  return out;
}

TEST(Refused, every_unsupported_family_and_key_is_named_before_weights_are_looked_at) {
  const Json list = parse_json(read_file(data("refused/expected.json")), "expected.json");
  size_t tried = 0;
  for (const Json& one : list["cases"]) {
    const std::string name = one["dir"];
    if (name == "gemma3-vision") continue;  // its text tower is taken, and the dropped vision tower said aloud
    ++tried;
    const Json config = parse_json(read_file(data("refused/" + name + "/config.json")), name, {.allow_bom = true});
    const Refusal refusal = refusal_of([&] { describe(bare(config)); });
    EXPECT_TRUE(refusal.kind == "Unsupported" || refusal.kind == "Parse") << name << ": " << refusal.kind;
    bool named = true;
    for (const std::string word : one["must_contain"]) named = named && whole_word(refusal.text, word);
    for (const std::string word : one.value("or_contain", Json::array()))
      named = named || whole_word(refusal.text, word);
    EXPECT_TRUE(named) << name << ": " << refusal.text;
  }
  EXPECT_EQ(tried, 50u);
}

TEST(Refused, the_same_config_without_its_odd_key_is_accepted) {
  const std::pair<const char*, const char*> removable[] = {{"llama-rope-dynamic", "rope_scaling"},
                                                           {"llama-rope-unknown", "rope_scaling"},
                                                           {"qwen2-mrope", "rope_scaling"},
                                                           {"llama-yarn-no-factor", "rope_scaling"},
                                                           {"llama-gptq", "quantization_config"},
                                                           {"llama-act-relu", "hidden_act"},
                                                           {"llama-odd-head-dim", "head_dim"},
                                                           {"qwen2-layer-types-length", "layer_types"},
                                                           {"gemma3-bidirectional", "use_bidirectional_attention"}};
  for (const auto& [name, key] : removable) {
    Json config = parse_json(read_file(data(std::string("refused/") + name + "/config.json")), name);
    config.erase(key);
    if (std::string_view(name) == "gemma3-bidirectional") config["architectures"] = {"Gemma3ForCausalLM"};
    const Refusal refusal = refusal_of([&] { describe(bare(config)); });
    EXPECT_EQ(refusal.kind, "none") << name << ": " << refusal.text;
  }
}

TEST(Refused, gemma3_with_a_vision_tower_is_taken_as_text_and_says_so) {
  const Described model =
      describe(bare(parse_json(read_file(data("refused/gemma3-vision/config.json")), "config.json")));
  EXPECT_EQ(model.arch.num_layers, 6u);
  EXPECT_EQ(model.arch.rope_freq_factors, std::vector<double>(16, 8.0)) << "the linear factor of the full layers";
  EXPECT_EQ(model.arch.rope_local_base_freq, 10000);
  EXPECT_EQ(model.arch.layer_types[5], cmf::LayerType::FullAttention);
  EXPECT_TRUE(std::any_of(model.notes.begin(), model.notes.end(),
                          [](const std::string& note) { return note.find("vision") != note.npos; }));
}

// One config of data/convert/configs beside the tensors of hf/head_differs.
struct Outcome {
  Refusal refusal;
  std::optional<Plan> plan;
};
Outcome outcome_of(const std::string& config, const std::string& checkpoint = "hf/head_differs") {
  Scratch scratch;
  for (const auto& entry : fs::directory_iterator(data(checkpoint)))
    fs::copy(entry.path(), scratch.path(entry.path().filename()));
  fs::copy_file(data("configs/" + config + ".json"), scratch.path("config.json"), fs::copy_options::overwrite_existing);
  Outcome out;
  ThreadPool pool(1);
  out.refusal = refusal_of([&] { out.plan = make_plan(scratch.path(""), {}, pool); });
  return out;
}

TEST(ConfigFile, unusual_but_clear_files_are_read) {
  for (const char* name : {"bom",
                           "crlf",
                           "layers_as_float",
                           "kv_heads_absent",
                           "head_dim_absent",
                           "eos_list",
                           "rope_default_type",
                           "nested_text_config",
                           "tie_key_absent",
                           "untied",
                           "rope_both_keys_agree",
                           "rope_linear_new_key",
                           "rope_linear_old_key",
                           "rope_parameters_v5",
                           "rope_yarn_attention_factor_1",
                           "rope_yarn_missing_original",
                           "sliding_mistral_8",
                           "sliding_mistral_null",
                           "sliding_qwen2_off",
                           "vocab_size_larger_than_rows",
                           "vocab_size_smaller_than_rows"}) {
    const Outcome outcome = outcome_of(name);
    // Two of them lack what the tensors say otherwise: kv heads and head width.
    if (std::string_view(name) == "kv_heads_absent") {
      EXPECT_EQ(outcome.refusal.kind, "Bounds") << "k_proj has one head, the config now says two";
      continue;
    }
    EXPECT_EQ(outcome.refusal.kind, "none") << name << ": " << outcome.refusal.text;
  }
}

TEST(ConfigFile, malformed_values_are_refused_with_key_and_value) {
  const std::pair<const char*, const char*> cases[] = {{"duplicate_key", "num_attention_heads"},
                                                       {"eps_string", "rms_norm_eps"},
                                                       {"eps_zero", "rms_norm_eps"},
                                                       {"layers_as_string", "num_hidden_layers"},
                                                       {"layers_huge", "num_hidden_layers"},
                                                       {"layers_negative", "num_hidden_layers"},
                                                       {"layers_fewer_than_weights", "num_hidden_layers"},
                                                       {"nan_value", "config.json"},
                                                       {"not_an_object", "object"},
                                                       {"theta_1e400", "1e400"},
                                                       {"trailing_comma", "config.json"},
                                                       {"truncated", "config.json"},
                                                       {"utf16", "config.json"},
                                                       {"sliding_zero", "sliding_window"},
                                                       {"kv_heads_not_divisor", "num_key_value_heads"},
                                                       {"rope_llama3_missing_key", "high_freq_factor"},
                                                       {"eos_out_of_range", "4800"}};
  for (const auto& [name, word] : cases) {
    const Outcome outcome = outcome_of(name);
    EXPECT_EQ(outcome.refusal.kind, "Parse") << name << ": " << outcome.refusal.text;
    EXPECT_NE(outcome.refusal.text.find(word), std::string::npos) << name << ": " << outcome.refusal.text;
  }
}

TEST(ConfigFile, unsupported_values_are_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {{"act_unknown", "relu2"},
                                                       {"architecture_conflict", "Qwen3ForCausalLM"},
                                                       {"architecture_unknown", "foo"},
                                                       {"quantized_fp8", "fp8"},
                                                       {"quantized_gptq", "gptq"},
                                                       {"rope_dynamic", "dynamic"},
                                                       {"rope_unknown_type", "hyperspiral"},
                                                       {"rope_both_keys_conflict", "yarn"}};
  for (const auto& [name, word] : cases) {
    const Outcome outcome = outcome_of(name);
    EXPECT_EQ(outcome.refusal.kind, "Unsupported") << name << ": " << outcome.refusal.text;
    EXPECT_NE(outcome.refusal.text.find(word), std::string::npos) << name << ": " << outcome.refusal.text;
  }
}

TEST(ConfigFile, contradictions_with_the_tensors_name_both_numbers) {
  const Outcome head = outcome_of("head_dim_wrong");
  EXPECT_EQ(head.refusal.kind, "Bounds");
  EXPECT_NE(head.refusal.text.find("[32, 32]"), std::string::npos) << head.refusal.text;
  EXPECT_NE(head.refusal.text.find("[16, 32]"), std::string::npos) << head.refusal.text;

  const Outcome biases = outcome_of("attention_bias_claimed");
  EXPECT_EQ(biases.refusal.kind, "Parse");
  EXPECT_NE(biases.refusal.text.find("attention_bias"), std::string::npos) << biases.refusal.text;

  const Outcome layers = outcome_of("layers_more_than_weights");
  EXPECT_EQ(layers.refusal.kind, "Parse");
  EXPECT_NE(layers.refusal.text.find("model.layers.1."), std::string::npos) << layers.refusal.text;
}

TEST(ConfigFile, windows_and_scalings_are_resolved_as_they_are_meant) {
  using cmf::LayerType;
  EXPECT_EQ(outcome_of("sliding_mistral_8").plan->arch.layer_types[0], LayerType::SlidingAttention);
  EXPECT_EQ(outcome_of("sliding_mistral_8").plan->arch.sliding_window, 8u);
  EXPECT_EQ(outcome_of("sliding_mistral_null").plan->arch.layer_types[0], LayerType::FullAttention);
  EXPECT_EQ(outcome_of("sliding_qwen2_off").plan->arch.layer_types[0], LayerType::FullAttention);
  EXPECT_FALSE(outcome_of("sliding_qwen2_off").plan->arch.sliding_window.has_value());
  for (const char* name :
       {"rope_linear_new_key", "rope_linear_old_key", "rope_parameters_v5", "rope_both_keys_agree"}) {
    EXPECT_EQ(outcome_of(name).plan->arch.rope_freq_factors, std::vector<double>(8, 2.0)) << name;
  }
  EXPECT_TRUE(outcome_of("rope_default_type").plan->arch.rope_freq_factors.empty());
  const Outcome yarn = outcome_of("rope_yarn_attention_factor_1");
  ASSERT_TRUE(yarn.plan->arch.yarn.has_value());
  EXPECT_EQ(yarn.plan->arch.yarn->attention_factor, 1.0) << "explicit, not computed";
  const Outcome missing = outcome_of("rope_yarn_missing_original");
  EXPECT_EQ(missing.plan->arch.yarn->original_max_position_embeddings, 64u);
  EXPECT_FALSE(missing.plan->warnings.empty());
}

TEST(ConfigFile, rows_of_the_embedding_count_not_vocab_size) {
  for (const char* name : {"vocab_size_larger_than_rows", "vocab_size_smaller_than_rows"}) {
    const Outcome outcome = outcome_of(name);
    EXPECT_EQ(outcome.plan->arch.vocab_size, 48u);
    EXPECT_TRUE(std::any_of(outcome.plan->warnings.begin(), outcome.plan->warnings.end(),
                            [](const std::string& text) { return text.find("vocab_size") != text.npos; }));
  }
}

TEST(ConfigValues, integers_and_only_integers_count) {
  const Json json = parse_json(R"({"a": 3.0, "b": 3.5, "c": "3", "d": -1, "e": 1e19, "f": null, "g": true})", "test");
  const Json defaults = parse_json(R"({"f": 7, "h": 9})", "test");
  const Config config(json, &defaults, "test: ");
  EXPECT_EQ(config.count("a"), 3u);
  for (const char* key : {"b", "c", "d", "e", "g"})
    EXPECT_EQ(refusal_of([&] { config.count(key); }).kind, "Parse") << key;
  EXPECT_FALSE(config.maybe_count("f").has_value()) << "an explicit null is no default";
  EXPECT_EQ(config.count("h"), 9u);
  EXPECT_EQ(config.unread(), (std::vector<std::string>{})) << "all keys were asked for";
}

TEST(ConfigRules, keys_that_nobody_knows_are_told) {
  Json config = parse_json(read_file(data("hf/head_differs/config.json")), "config.json");
  config["brand_new_scaling"] = 3;
  const Described model = describe(bare(config));
  ASSERT_FALSE(model.notes.empty());
  EXPECT_NE(model.notes.back().find("brand_new_scaling"), std::string::npos);
  EXPECT_EQ(model.notes.back().find("rope_theta"), std::string::npos);
}

}  // namespace
}  // namespace cortiq::convert
