#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "convert/convert.h"
#include "convert/fake_source.h"
#include "convert/support.h"

// Every family's config and tensor list (data/convert/families: made checkpoints without their weights) must become the
// arch and the tensors that were worked out for it apart from this code.
namespace cortiq::convert {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  Json facts;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& entry : fs::directory_iterator(data("families"))) {
    out.push_back({entry.path().stem(), parse_json(read_file(entry.path()), entry.path().string())});
  }
  std::sort(out.begin(), out.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return out;
}

std::shared_ptr<FakeSource> source_of(const Json& facts) {
  auto out = std::make_shared<FakeSource>();
  for (const auto& [name, row] : facts["tensors"].items()) {
    std::vector<uint64_t> shape;
    for (size_t i = 1; i < row.size(); ++i) shape.push_back(row[i]);
    out->add(name, shape, row[0]);
  }
  return out;
}

Plan plan_of(const Json& facts) {
  ThreadPool pool(1);
  return make_plan(checkpoint_of(facts["config"], source_of(facts)), {.quant = "f32"}, pool);
}

void expect_equal(const std::string& name, const std::string& key, const Json& got, const Json& expected) {
  if (expected.is_object()) {
    for (const auto& [inner, value] : expected.items()) {
      ASSERT_TRUE(got.contains(inner)) << name << ": " << key << "." << inner;
      expect_equal(name, key + "." + inner, got[inner], value);
    }
  } else if (expected.is_number_float()) {
    EXPECT_NEAR(got.get<double>(), expected.get<double>(), 1e-12 * std::fabs(expected.get<double>()))
        << name << ": " << key;
  } else {
    EXPECT_EQ(got, expected) << name << ": " << key;
  }
}

TEST(Families, hybrid_models_get_exactly_their_arch_and_tensors) {
  size_t tried = 0;
  for (const Case& one : cases()) {
    if (!one.facts.contains("arch")) continue;
    SCOPED_TRACE(one.name);
    ++tried;
    const Plan plan = plan_of(one.facts);
    const Json arch = cmf::resolved_arch(plan.arch);
    for (const auto& [key, value] : one.facts["arch"].items()) {
      ASSERT_TRUE(arch.contains(key)) << one.name << ": " << key;
      expect_equal(one.name, key, arch[key], value);
    }
    for (const char* key :
         {"moe", "mtp", "yarn", "attention_heads_per_layer", "sliding_window", "rope_local_base_freq"}) {
      const bool expected = one.facts["arch"].contains(key);
      EXPECT_EQ(cmf::write_arch(plan.arch).contains(key) && !cmf::write_arch(plan.arch)[key].is_null(), expected)
          << key;
    }
    std::map<std::string, Json> tensors;
    for (const PlannedTensor& tensor : plan.tensors) {
      Json shape = Json::array();
      for (uint8_t i = 0; i < tensor.shape.rank; ++i) shape.push_back(tensor.shape.dims[i]);
      tensors[tensor.name] = shape;
    }
    for (const auto& [name, shape] : one.facts["cmf_tensors"].items()) {
      ASSERT_TRUE(tensors.contains(name)) << one.name << " lacks " << name;
      EXPECT_EQ(tensors[name], shape) << one.name << ": " << name;
      tensors.erase(name);
    }
    EXPECT_TRUE(tensors.empty()) << one.name << " has a tensor too many: " << tensors.begin()->first;
  }
  EXPECT_EQ(tried, 17u);
}

// What a reader of the header makes of one kind of layer: inverse frequencies and the multiplier of cos and sin
// (ENGINE_FACTS §5), worked out here from the arch alone.
struct Table {
  std::vector<double> frequencies;
  double multiplier = 1;
};
Table table_of(const cmf::Arch& arch, bool sliding) {
  const bool local = sliding && arch.rope_local_base_freq;
  const double partial =
      local ? arch.local_partial_rotary_factor.value_or(arch.partial_rotary_factor) : arch.partial_rotary_factor;
  const auto width = static_cast<uint64_t>(static_cast<double>(arch.head_dim) * partial);
  const double theta = local ? *arch.rope_local_base_freq : arch.rope_theta, r = static_cast<double>(width);
  Table out;
  for (uint64_t i = 0; i < width / 2; ++i)
    out.frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / r));
  if (local) return out;
  if (arch.yarn) {
    const auto edge = [&](double turns) {
      return r *
             std::log(static_cast<double>(arch.yarn->original_max_position_embeddings) /
                      (turns * 2 * std::numbers::pi)) /
             (2 * std::log(theta));
    };
    const double low = std::max(std::floor(edge(arch.yarn->beta_fast)), 0.0);
    double high = std::min(std::ceil(edge(arch.yarn->beta_slow)), r - 1);
    if (low == high) high += 0.001;
    for (uint64_t i = 0; i < width / 2; ++i) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      out.frequencies[i] *= 1 - ramp + ramp / arch.yarn->factor;
    }
    out.multiplier = arch.yarn->attention_factor;
  }
  for (size_t i = 0; i < std::min(out.frequencies.size(), arch.rope_freq_factors.size()); ++i) {
    out.frequencies[i] /= arch.rope_freq_factors[i];
  }
  return out;
}

TEST(Families, dense_models_get_their_sizes_windows_and_rotary_tables) {
  size_t tried = 0;
  for (const Case& one : cases()) {
    if (one.facts.contains("arch")) continue;
    SCOPED_TRACE(one.name);
    ++tried;
    const Json& facts = one.facts;
    Plan plan;
    try {
      plan = plan_of(facts);
    } catch (const Error& error) {
      EXPECT_TRUE(facts["optional"].get<bool>() && error.kind() == ErrorKind::Unsupported) << error.what();
      EXPECT_EQ(one.name, "ministral3-qscale") << "the only case that the header cannot say";
      continue;
    }
    const cmf::Arch& arch = plan.arch;
    EXPECT_EQ(arch.num_layers, facts["layers"]);
    EXPECT_EQ(arch.hidden_size, facts["hidden"]);
    EXPECT_EQ(arch.num_attention_heads, facts["heads"]);
    EXPECT_EQ(arch.num_kv_heads, facts["kv_heads"]);
    EXPECT_EQ(arch.head_dim, facts["head_dim"]);
    EXPECT_EQ(arch.intermediate_size, facts["intermediate"]);
    EXPECT_EQ(arch.vocab_size, facts["vocab"]);
    EXPECT_EQ(arch.norm_style == cmf::NormStyle::Gemma, facts["norm_style"] == "gemma");
    const bool nope = one.name == "smollm3-nope";
    for (uint64_t l = 0; l < arch.num_layers; ++l) {
      const bool sliding = arch.layer_types[l] == cmf::LayerType::SlidingAttention;
      const Json window = sliding && !nope ? Json(*arch.sliding_window) : Json(nullptr);
      EXPECT_EQ(window, facts["layer_windows"][l]) << "layer " << l;
      if (nope) {
        EXPECT_EQ(sliding, l % 4 != 3) << "rotated layers slide over the whole context";
        if (!sliding) {
          EXPECT_LT(table_of(arch, false).frequencies[0], 1e-25);
          continue;
        }
        EXPECT_EQ(arch.sliding_window, arch.max_position_embeddings);
      }
      const Json& tables = facts["rope_tables"];
      const Json& expected =
          tables.contains("sliding_attention") && sliding ? tables["sliding_attention"] : tables.begin().value();
      if (sliding && !tables.contains("sliding_attention") && !nope) {
        EXPECT_FALSE(arch.rope_local_base_freq.has_value());
      }
      const Json& wanted = tables.contains("full_attention") && !sliding ? tables["full_attention"] : expected;
      const Table table = table_of(arch, sliding);
      EXPECT_EQ(table.frequencies.size() * 2, wanted["rotary_width"].get<size_t>());
      EXPECT_NEAR(table.multiplier, wanted["cos_sin_multiplier"].get<double>(), 1e-12);
      for (size_t i = 0; i < table.frequencies.size(); ++i) {
        const double frequency = wanted["inv_freq"][i];
        EXPECT_NEAR(table.frequencies[i], frequency, 6e-9 * frequency) << "layer " << l << " pair " << i;
      }
    }
  }
  EXPECT_EQ(tried, 33u);
}

TEST(Families, activations_scales_and_caps_of_gemma) {
  for (const Case& one : cases()) {
    if (one.name.starts_with("gemma")) {
      const cmf::Arch arch = plan_of(one.facts).arch;
      EXPECT_EQ(arch.hidden_act, cmf::Activation::GeluTanh) << one.name;
      EXPECT_EQ(arch.embed_multiplier, std::sqrt(static_cast<double>(arch.hidden_size))) << one.name;
      EXPECT_TRUE(arch.tie_word_embeddings) << one.name;
    }
    if (one.name == "gemma2-softcap") {
      const cmf::Arch arch = plan_of(one.facts).arch;
      EXPECT_EQ(arch.attn_logit_softcapping, 4);
      EXPECT_EQ(arch.final_logit_softcapping, 5);
      EXPECT_EQ(arch.query_pre_attn_scalar, 10);
      EXPECT_EQ(arch.sliding_window_pattern, 2u);
    }
    if (one.name == "gemma2-nocap-layertypes") {
      const cmf::Arch arch = plan_of(one.facts).arch;
      EXPECT_FALSE(arch.attn_logit_softcapping.has_value()) << "an explicit null is no default";
      EXPECT_FALSE(arch.final_logit_softcapping.has_value());
      EXPECT_FALSE(arch.sliding_window_pattern.has_value());
    }
    if (one.name == "gemma3-old") {
      EXPECT_EQ(plan_of(one.facts).arch.sliding_window_pattern, 6u);
    }
  }
}

TEST(Families, experts_lie_role_by_role) {
  for (const Case& one : cases()) {
    if (one.name != "qwen3_moe") continue;
    const Plan plan = plan_of(one.facts);
    std::vector<std::string> experts;
    for (const PlannedTensor& tensor : plan.tensors) {
      if (tensor.name.starts_with("model.layers.0.mlp.experts.")) experts.push_back(tensor.name.substr(27));
    }
    ASSERT_EQ(experts.size(), 24u);
    EXPECT_EQ(experts[0], "0.gate_proj.weight");
    EXPECT_EQ(experts[7], "7.gate_proj.weight");
    EXPECT_EQ(experts[8], "0.up_proj.weight");
    EXPECT_EQ(experts[16], "0.down_proj.weight");
  }
}

TEST(Families, draft_heads_say_which_hidden_state_feeds_them) {
  for (const Case& one : cases()) {
    if (one.name == "qwen3_5_mtp" || one.name == "qwen3_dsmtp") {
      EXPECT_EQ(plan_of(one.facts).arch.mtp->hidden, one.name == "qwen3_5_mtp" ? "post" : "pre");
    }
  }
}

TEST(Families, a_promised_draft_head_that_is_not_there_is_a_note) {
  for (Case& one : cases()) {
    if (one.name != "dense_base") continue;
    one.facts["config"]["num_nextn_predict_layers"] = 1;
    const Plan plan = plan_of(one.facts);
    EXPECT_FALSE(plan.arch.mtp.has_value());
    EXPECT_TRUE(std::any_of(plan.notes.begin(), plan.notes.end(), [](const std::string& note) {
      return note.find("num_nextn_predict_layers") != note.npos;
    }));
  }
}

TEST(Families, every_missing_tensor_is_named_and_every_strange_one_too) {
  for (const Case& one : cases()) {
    if (one.facts["optional"]) continue;
    const auto source = source_of(one.facts);
    ThreadPool pool(1);
    std::vector<std::string> names;
    for (const SourceTensor& tensor : source->tensors()) names.push_back(tensor.name);
    for (const std::string& name : names) {
      const bool left_out = name.find("visual") != name.npos || name.find("inv_freq") != name.npos ||
                            name.ends_with(".bias") || name.ends_with("eh_proj.weight") || name == "lm_head.weight" ||
                            name.find("layers.3.") != name.npos || name.starts_with("mtp.");
      // With a head beside it, the embedding's absence is another finding.
      if (left_out || name == "model.embed_tokens.weight") continue;
      auto lacking = source_of(one.facts);
      lacking->remove(name);
      const Refusal refusal = refusal_of([&] { make_plan(checkpoint_of(one.facts["config"], lacking), {}, pool); });
      EXPECT_EQ(refusal.kind, "Parse") << one.name << " without " << name << ": " << refusal.text;
    }
    auto more = source_of(one.facts);
    more->add("model.layers.0.foo.weight", {4, 4});
    const Refusal refusal = refusal_of([&] { make_plan(checkpoint_of(one.facts["config"], more), {}, pool); });
    EXPECT_EQ(refusal.kind, "Unsupported") << one.name;
    EXPECT_NE(refusal.text.find("model.layers.0.foo.weight"), std::string::npos);
    const Plan plan = make_plan(checkpoint_of(one.facts["config"], more), {.allow_unknown = true}, pool);
    EXPECT_TRUE(std::any_of(plan.drops.begin(), plan.drops.end(),
                            [](const Drop& drop) { return drop.name == "model.layers.0.foo.weight"; }));
  }
}

TEST(Families, fused_tensors_that_do_not_add_up_are_refused) {
  const auto with_shape = [](const std::string& wanted, const std::string& tensor, std::vector<uint64_t> shape) {
    for (const Case& one : cases()) {
      if (one.name != wanted) continue;
      auto source = source_of(one.facts);
      source->remove(tensor);
      source->add(tensor, std::move(shape), "BF16");
      ThreadPool pool(1);
      return refusal_of([&] { make_plan(checkpoint_of(one.facts["config"], source), {}, pool); });
    }
    return Refusal{};
  };
  EXPECT_EQ(with_shape("phi3-fused", "model.layers.1.self_attn.qkv_proj.weight", {145, 48}).kind, "Bounds");
  EXPECT_EQ(with_shape("phi3-fused", "model.layers.1.mlp.gate_up_proj.weight", {161, 48}).kind, "Bounds");
  EXPECT_EQ(with_shape("qwen3_moe_fused", "model.layers.0.mlp.experts.gate_up_proj", {3, 190, 64}).kind, "Bounds");
  EXPECT_EQ(with_shape("qwen3_moe_fused", "model.layers.0.mlp.experts.down_proj", {4, 64, 96}).kind, "Bounds");
  EXPECT_EQ(with_shape("qwen3_next", "model.layers.0.linear_attn.in_proj_qkvz.weight", {194, 64}).kind, "Bounds");
}

}  // namespace
}  // namespace cortiq::convert
