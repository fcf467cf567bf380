#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codec/layout.h"
#include "convert/expert_budget.h"
#include "convert/lora.h"
#include "convert/npy.h"
#include "convert/read_values.h"
#include "convert/safetensors_writer.h"
#include "convert/support.h"
#include "convert/toy_model.h"

namespace cortiq::convert {
namespace {

void write_adapter(const Scratch& scratch, const Json& config,
                   const std::vector<SafetensorsWriter::Declaration>& tensors) {
  scratch.write("lora/adapter_config.json", config.dump());
  SafetensorsWriter writer(FileSystem::real(), scratch.path("lora/adapter_model.safetensors"), tensors);
  for (const auto& one : tensors) {
    uint64_t count = 1;
    for (const uint64_t size : one.shape) count *= size;
    std::vector<float> values;
    for (uint64_t i = 0; i < count; ++i) values.push_back(toy_value(one.name, i));
    writer.append(values);
  }
  writer.finish();
}

constexpr const char* kA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
constexpr const char* kB = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";

Json adapter(uint64_t rank, double alpha) {
  return {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", alpha}, {"bias", "none"}};
}

TEST(Lora, merges_w_plus_scaled_b_times_a) {
  for (const bool rslora : {false, true}) {
    Scratch scratch;
    Json config = adapter(4, 10);
    config["use_rslora"] = rslora;
    write_adapter(scratch, config, {{kA, {4, 6}}, {kB, {5, 4}}});
    const Lora lora = Lora::open(scratch.path("lora"));
    ASSERT_EQ(lora.targets().size(), 1u);
    EXPECT_EQ(lora.targets()[0].name, "model.layers.0.self_attn.q_proj.weight");
    std::vector<float> weights(30);
    for (uint64_t i = 0; i < 30; ++i) weights[i] = static_cast<float>(i);
    ThreadPool pool(2);
    lora.merge(lora.targets()[0], weights, 5, 6, pool);
    const double scale = rslora ? 10 / std::sqrt(4.0) : 10 / 4.0;
    for (uint64_t r = 0; r < 5; ++r) {
      for (uint64_t c = 0; c < 6; ++c) {
        double expected = static_cast<double>(r * 6 + c);
        for (uint64_t k = 0; k < 4; ++k)
          expected +=
              scale * static_cast<double>(toy_value(kB, r * 4 + k)) * static_cast<double>(toy_value(kA, k * 6 + c));
        EXPECT_NEAR(weights[r * 6 + c], expected, 1e-5);
      }
    }
    std::vector<float> other(35);
    EXPECT_EQ(refusal_of([&] { lora.merge(lora.targets()[0], other, 5, 7, pool); }).kind, "Bounds");
  }
}

TEST(Lora, whole_modules_replace_and_what_is_more_than_low_rank_is_refused) {
  Scratch scratch;
  write_adapter(scratch, adapter(4, 8),
                {{kA, {4, 6}}, {kB, {5, 4}}, {"base_model.model.lm_head.modules_to_save.weight", {3, 6}}});
  const Lora lora = Lora::open(scratch.path("lora"));
  ASSERT_EQ(lora.targets().size(), 2u);
  EXPECT_EQ(lora.targets()[0].name, "lm_head.weight");
  std::vector<float> weights(18, 1.0f);
  ThreadPool pool(1);
  lora.merge(lora.targets()[0], weights, 3, 6, pool);
  EXPECT_EQ(weights[7], toy_value("base_model.model.lm_head.modules_to_save.weight", 7));

  const std::pair<const char*, Json> keys[] = {{"use_dora", true},
                                               {"fan_in_fan_out", true},
                                               {"bias", "all"},
                                               {"rank_pattern", {{"q_proj", 8}}},
                                               {"alpha_pattern", {{"q_proj", 8}}},
                                               {"peft_type", "IA3"}};
  for (const auto& [key, value] : keys) {
    Scratch other;
    Json config = adapter(4, 8);
    config[key] = value;
    write_adapter(other, config, {{kA, {4, 6}}, {kB, {5, 4}}});
    const Refusal refusal = refusal_of([&] { Lora::open(other.path("lora")); });
    EXPECT_EQ(refusal.kind, "Unsupported") << key;
    EXPECT_NE(refusal.text.find(key), std::string::npos) << refusal.text;
  }
  Scratch half, wrong, strange;
  write_adapter(half, adapter(4, 8), {{kA, {4, 6}}});
  EXPECT_EQ(refusal_of([&] { Lora::open(half.path("lora")); }).kind, "Parse");
  write_adapter(wrong, adapter(4, 8), {{kA, {3, 6}}, {kB, {5, 4}}});
  EXPECT_EQ(refusal_of([&] { Lora::open(wrong.path("lora")); }).kind, "Bounds");
  write_adapter(strange, adapter(4, 8), {{"base_model.model.model.embed_tokens.lora_embedding_A", {4, 6}}});
  EXPECT_EQ(refusal_of([&] { Lora::open(strange.path("lora")); }).kind, "Unsupported");
}

TEST(ReadValues, rows_columns_and_transposition_pick_the_same_elements_with_any_threads) {
  FakeSource source([](const std::string&, uint64_t i) { return static_cast<float>(i); });
  source.add("t", {700, 900});
  const Recipe recipe{
      .source = &source, .tensor = source.find("t"), .rows = {{5, 300}, {600, 2}}, .columns = {{10, 400}, {899, 1}}};
  for (const bool transpose : {false, true}) {
    for (const size_t threads : {size_t{1}, size_t{3}}) {
      Recipe one = recipe;
      one.transpose = transpose;
      std::vector<float> out(302 * 401);
      ThreadPool pool(threads);
      read_values(one, out, pool);
      for (uint64_t r = 0; r < 302; ++r) {
        for (uint64_t c = 0; c < 401; ++c) {
          const uint64_t row = r < 300 ? 5 + r : 300 + r, column = c < 400 ? 10 + c : 499 + c;
          ASSERT_EQ(out[transpose ? c * 302 + r : r * 401 + c], static_cast<float>(row * 900 + column));
        }
      }
    }
  }
  std::vector<float> out(1);
  ThreadPool pool(1);
  Recipe outside{.source = &source, .tensor = source.find("t"), .rows = {{699, 2}}};
  EXPECT_EQ(refusal_of([&] { read_values(outside, out, pool); }).kind, "Bounds");
}

// keep: layer 0 loses its odd neurons, layer 1 its first half.
bool kept(uint64_t layer, uint64_t neuron) { return layer == 0 ? neuron % 2 == 0 : neuron >= 48; }

void expect_cut(const Plan& plan) {
  EXPECT_EQ(plan.arch.intermediate_size, 48u);
  ThreadPool pool(1);
  size_t seen = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    const size_t mlp = tensor.name.find(".mlp.");
    if (mlp == tensor.name.npos) continue;
    ++seen;
    const uint64_t layer = static_cast<uint64_t>(tensor.name[13] - '0');
    const bool down = tensor.name.find("down_proj") != tensor.name.npos;
    ASSERT_EQ(tensor.shape.dims[down ? 1 : 0], 48u) << tensor.name;
    const std::vector<float> values = read_values(tensor, pool);
    uint64_t at = 0;
    for (uint64_t r = 0; r < (down ? 64 : 96); ++r) {
      if (!down && !kept(layer, r)) continue;
      for (uint64_t c = 0; c < (down ? 96 : 64); ++c) {
        if (down && !kept(layer, c)) continue;
        ASSERT_EQ(values[at++], toy_value(tensor.name, r * (down ? 96 : 64) + c)) << tensor.name;
      }
    }
  }
  EXPECT_EQ(seen, 6u);
  const Json& defrag = plan.contents.header["provenance"]["defrag"];
  EXPECT_EQ(defrag["pre_intermediate"], 96);
  EXPECT_EQ(defrag["kept_per_layer"], (Json{48, 48}));
  EXPECT_EQ(defrag["pruned_ratio"], 0.5);
}

TEST(Defrag, keep_file_cuts_rows_of_gate_and_up_and_columns_of_down) {
  Scratch scratch;
  std::vector<float> keep;
  for (uint64_t l = 0; l < 2; ++l) {
    for (uint64_t i = 0; i < 96; ++i) keep.push_back(kept(l, i) ? 1 : 0);
  }
  std::filesystem::create_directories(scratch.path("skill"));
  const std::vector<uint64_t> shape{2, 96};
  write_npy(scratch.path("skill/ffn_keep.npy"), shape, keep);
  ThreadPool pool(1);
  expect_cut(
      make_plan(checkpoint_of(toy_config(), toy_source()), {.quant = "f32", .defrag = scratch.path("skill")}, pool));

  std::fill(keep.begin() + 96, keep.end(), 0.0f);
  write_npy(scratch.path("skill/ffn_keep.npy"), shape, keep);
  const Refusal empty = refusal_of(
      [&] { make_plan(checkpoint_of(toy_config(), toy_source()), {.defrag = scratch.path("skill")}, pool); });
  EXPECT_EQ(empty.kind, "Parse");
  EXPECT_NE(empty.text.find("layer 1"), std::string::npos) << empty.text;
  EXPECT_EQ(refusal_of([&] {
              make_plan(checkpoint_of(toy_config(), toy_source()), {.shard_max_gb = 1, .defrag = scratch.path("skill")},
                        pool);
            }).kind,
            "Usage");
}

TEST(Defrag, neurons_whose_down_column_is_zero_are_dead_and_overlays_come_first) {
  Scratch scratch;
  // The checkpoint is whole; overlays of both down_proj zero the columns of the neurons to go.
  for (uint64_t l = 0; l < 2; ++l) {
    const std::string name = "model.layers." + std::to_string(l) + ".mlp.down_proj.weight";
    std::vector<float> values;
    for (uint64_t i = 0; i < 64 * 96; ++i) values.push_back(kept(l, i % 96) ? toy_value(name, i) : 0.0f);
    std::filesystem::create_directories(scratch.path("skill/tensors"));
    const std::vector<uint64_t> shape{64, 96};
    write_npy(scratch.path("skill/tensors/" + name + ".npy"), shape, values);
  }
  ThreadPool pool(1);
  expect_cut(
      make_plan(checkpoint_of(toy_config(), toy_source()), {.quant = "f32", .defrag = scratch.path("skill")}, pool));
}

// Mean bits a row of a vbit payload.
double mean_bits(const std::vector<uint8_t>& payload, uint64_t rows) {
  double sum = 0;
  for (uint64_t r = 0; r < rows; ++r) sum += payload[r];
  return sum / static_cast<double>(rows);
}

TEST(ExpertBudget, large_and_popular_experts_get_bits_from_the_others_and_the_mean_stays) {
  FakeSource source([](const std::string& name, uint64_t i) {
    const double size = name.find("experts.0.") != name.npos ? 4 : name.find("experts.3.") != name.npos ? 0.25 : 1;
    return toy_value(name, i) * static_cast<float>(size * std::exp(0.3 * std::sin(static_cast<double>(i / 64))));
  });
  std::vector<PlannedTensor> tensors;
  for (int e = 0; e < 4; ++e) source.add(fmt::format("model.layers.2.mlp.experts.{}.up_proj.weight", e), {96, 64});
  for (const SourceTensor& one : source.tensors()) {
    PlannedTensor tensor;
    tensor.name = one.name;
    tensor.dtype = codec::Dtype::VbitRo;
    tensor.shape = {96, 64};
    tensor.recipe = {.source = &source, .tensor = &one};
    tensors.push_back(tensor);
  }
  ThreadPool pool(2);
  const auto bits_of = [&](std::map<uint64_t, std::vector<uint64_t>> counts) {
    ExpertBudget budget(tensors, 4.25, std::move(counts));
    std::vector<double> out;
    for (const PlannedTensor& tensor : tensors) {
      codec::EncodeOptions options;
      options.row_bias = budget.bias(tensor, pool);
      out.push_back(
          mean_bits(codec::of(tensor.dtype).encode(read_values(tensor, pool), tensor.shape, options, pool), 96));
    }
    return out;
  };
  const std::vector<double> by_size = bits_of({});
  EXPECT_GT(by_size[0], by_size[1] + 0.5);
  EXPECT_LT(by_size[3], by_size[1] - 0.5);
  EXPECT_NEAR((by_size[0] + by_size[1] + by_size[2] + by_size[3]) / 4, 4.25, 0.03);
  const std::vector<double> by_use = bits_of({{2, {10, 10, 1000, 10}}});
  EXPECT_GT(by_use[2], by_size[2]);
  EXPECT_NEAR((by_use[0] + by_use[1] + by_use[2] + by_use[3]) / 4, 4.25, 0.03);
}

TEST(RouteStats, layers_are_numbers_and_counts_are_counts) {
  Scratch scratch;
  scratch.write("s.json", R"({"3": [1, 2, 3]})");
  EXPECT_EQ(read_route_stats(scratch.path("s.json"), FileSystem::real()).at(3)[2], 3u);
  for (const char* bad : {R"({"x": [1]})", R"({"3": [-1]})", R"([1])", R"({"3": 1})"}) {
    scratch.write("s.json", bad);
    EXPECT_EQ(refusal_of([&] { read_route_stats(scratch.path("s.json"), FileSystem::real()); }).kind, "Parse") << bad;
  }
}

}  // namespace
}  // namespace cortiq::convert
