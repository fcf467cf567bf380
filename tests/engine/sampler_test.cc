#include "engine/sampler.h"

#include <cmath>
#include <limits>

#include "engine/expert_choice.h"
#include "support.h"

namespace cortiq::engine {
namespace {

SamplerOptions open_options() {
  SamplerOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.min_p = 0;
  options.seed = 42;
  return options;
}

std::vector<uint32_t> draws(const SamplerOptions& options, const std::vector<float>& logits, int count) {
  Sampler sampler(options, logits.size());
  std::vector<uint32_t> ids;
  for (int i = 0; i < count; ++i) {
    std::vector<float> copy = logits;
    ids.push_back(sampler.choose(copy));
  }
  return ids;
}

TEST(Randoms, are_splitmix64) {
  Random random(42);
  EXPECT_EQ(random.next(), 0xbdd732262feb6e95u);
  EXPECT_EQ(random.next(), 0x28efe333b266f103u);
  Random again(42);
  EXPECT_EQ(again.uniform(), 0.7415648698806763f);
}

TEST(SamplerTest, greedy_ties_go_to_the_lowest_id) {
  Sampler sampler(SamplerOptions::greedy(), 5);
  std::vector<float> logits = {1, 7, 7, 7, 0};
  EXPECT_EQ(sampler.choose(logits), 1u);
}

TEST(SamplerTest, draws_follow_the_probabilities) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)};
  std::vector<int> counts(4);
  for (const uint32_t id : draws(open_options(), logits, 20000)) ++counts[id];
  EXPECT_NEAR(counts[0], 10000, 300);
  EXPECT_NEAR(counts[1], 5000, 300);
  EXPECT_NEAR(counts[2], 2500, 250);
}

TEST(SamplerTest, filters_cut_in_hugging_faces_order) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  const auto most = [&](SamplerOptions options) {
    const auto ids = draws(options, logits, 3000);
    return *std::max_element(ids.begin(), ids.end());
  };
  SamplerOptions options = open_options();
  options.top_k = 3;
  EXPECT_EQ(most(options), 2u);
  options.top_p = 0.75;  // of the remainder 0.9: 0.444, 0.333 reach it
  EXPECT_EQ(most(options), 1u);
  options = open_options();
  options.min_p = 0.6;  // 0.3 ≥ 0.6·0.4
  EXPECT_EQ(most(options), 1u);
  options.top_p = 1e-9;
  options.min_p = 1;
  EXPECT_EQ(most(options), 0u);
}

TEST(SamplerTest, tiny_temperatures_are_greedy_and_large_ones_do_not_fail) {
  const std::vector<float> logits = {3, 900, -900, 899.5f};
  for (const double temperature : {0.0, 1e-45, 1e-30, 1e-7, 1e-5, 0.01}) {
    SamplerOptions options = open_options();
    options.temperature = temperature;
    for (const uint32_t id : draws(options, logits, 50)) EXPECT_EQ(id, 1u) << temperature;
  }
  SamplerOptions options = open_options();
  options.temperature = 1e30;
  for (const uint32_t id : draws(options, logits, 50)) EXPECT_LT(id, 4u);
}

TEST(SamplerTest, penalties_count_an_id_once_and_never_help_it) {
  SamplerOptions options = SamplerOptions::greedy();
  options.repetition_penalty = 1.5;
  Sampler sampler(options, 4);
  sampler.saw_prompt(std::vector<uint32_t>{0, 0, 0, 1});
  std::vector<float> logits = {3, -2, 2.5f, -2.5f};
  EXPECT_EQ(sampler.choose(logits), 2u);
  EXPECT_EQ(logits, (std::vector<float>{2, -3, 2.5f, -2.5f}));
  options.repetition_penalty = 1;
  options.presence_penalty = 1;
  Sampler presence(options, 4);
  presence.saw_prompt(std::vector<uint32_t>{0});
  presence.saw_output(2);
  presence.saw_output(2);
  logits = {3, -2, 3.5f, 0};
  EXPECT_EQ(presence.choose(logits), 0u);  // the prompt does not count, the output once
  EXPECT_EQ(logits[2], 2.5f);
}

TEST(SamplerTest, what_is_out_of_range_is_named) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](auto change, const char* name) {
    SamplerOptions options;
    change(options);
    try {
      options.check();
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
    }
  };
  for (const double value : {0.0, -1.0, 2.0, nan}) refused([&](auto& o) { o.top_p = value; }, "top_p");
  for (const double value : {-0.1, 1.5, nan}) refused([&](auto& o) { o.min_p = value; }, "min_p");
  for (const double value : {-1.0, nan, HUGE_VAL}) refused([&](auto& o) { o.temperature = value; }, "temperature");
  for (const double value : {0.0, -1.0, nan}) refused([&](auto& o) { o.repetition_penalty = value; }, "repetition");
  refused([](auto& o) { o.top_k = -1; }, "top_k");
  refused([&](auto& o) { o.presence_penalty = nan; }, "presence");
  SamplerOptions large;
  large.top_k = 1000000000;
  large.seed = ~uint64_t{0};
  EXPECT_NO_THROW(large.check());
  EXPECT_LT(draws(large, {1, 2}, 1)[0], 2u);
}

TEST(ExpertChoice, equals_the_recorded_routers) {
  uint64_t rows = 0;
  const Json vectors = read_json(oracle("hybrid/router/vectors.json"));
  for (const Json& row : vectors["rows"]) {
    if (row["moe"].contains("n_group")) continue;  // groups have no field in the header
    ExpertRule rule;
    rule.top_k = row["moe"]["top_k"].get<uint32_t>();
    rule.normalise = row["moe"]["norm_topk_prob"].get<bool>();
    rule.sigmoid = row["moe"].value("router_sigmoid", false);
    rule.scaling = row["moe"].value("routed_scaling_factor", 1.0f);
    const auto bias = row["bias"].is_null() ? std::vector<float>() : row["bias"].get<std::vector<float>>();
    const auto admitted = row["allowed"].is_null() ? std::vector<uint32_t>() : ids_of(row["allowed"]);
    for (size_t i = 0; i < row["logits"].size(); ++i) {
      const auto logits = row["logits"][i].get<std::vector<float>>();
      std::vector<float> scratch(3 * logits.size()), weights(rule.top_k);
      std::vector<uint32_t> ids(rule.top_k);
      const uint32_t count =
          choose_experts(logits, bias.empty() ? nullptr : bias.data(), admitted.empty() ? nullptr : &admitted, rule,
                         scratch.data(), ids.data(), weights.data());
      ids.resize(count);
      EXPECT_EQ(ids, ids_of(row["ids"][i])) << row["name"];
      for (uint32_t slot = 0; slot < count; ++slot) {
        EXPECT_NEAR(weights[slot], row["weights"][i][slot].get<float>(), 2e-5f) << row["name"];
      }
      ++rows;
    }
  }
  EXPECT_GT(rows, 20u);
}

TEST(ExpertChoice, chooses_distinct_experts_even_among_nans) {
  const std::vector<float> logits(6, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> scratch(18), weights(3);
  std::vector<uint32_t> ids(3);
  EXPECT_EQ(choose_experts(logits, nullptr, nullptr, {3, false, true, 1}, scratch.data(), ids.data(), weights.data()),
            3u);
  EXPECT_EQ(ids, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(weights[0]));
}

}  // namespace
}  // namespace cortiq::engine
