#include "support.h"

// Every case of the oracle: logits, hidden states, routers, MTP heads and greedy ids against recorded numbers.
namespace cortiq::engine {
namespace {

constexpr double kTolerance = 1e-3;

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const char* group : {"dense", "hybrid"}) {
    for (const auto& entry : std::filesystem::directory_iterator(oracle(group))) {
      if (std::filesystem::exists(entry.path() / "config.json") &&
          std::filesystem::exists(entry.path() / "expected.json")) {
        names.push_back(std::string(group) + "/" + entry.path().filename().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Oracle : public testing::TestWithParam<std::string> {
 protected:
  Json facts = read_json(oracle(GetParam()) / "expected.json");
  std::vector<uint32_t> ids = ids_of(facts.contains("prompt_ids") ? facts["prompt_ids"] : facts["ids"]);
  std::shared_ptr<const Model> model = model_of(GetParam());

  void compare(const std::map<std::string, Values>& expected, const std::vector<NamedTensor>& got) {
    for (const auto& [name, values] : expected) {
      if (name.rfind("hidden_tail", 0) == 0) continue;
      const std::string key = name == "logits_tail" ? "logits" : name;
      const auto found = std::find_if(got.begin(), got.end(), [&](const auto& tensor) { return tensor.name == key; });
      ASSERT_NE(found, got.end()) << name;
      EXPECT_LE(max_difference(values.data, found->values), kTolerance) << name;
    }
  }
};

TEST_P(Oracle, every_number_on_the_way_is_the_recorded_one) {
  Decoder decoder(model, pool(), exact());
  InspectOptions options;
  options.hidden = true;
  compare(read_values(oracle(GetParam()) / "expected.safetensors"), inspect(decoder, model->backbone(), ids, options));
}

TEST_P(Oracle, long_prompts_keep_their_last_logits) {
  const auto file = oracle(GetParam()) / "expected_long.safetensors";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no long prompt recorded here";
  const Json& recorded = facts.contains("long_prompt_ids") ? facts["long_prompt_ids"] : facts["long_ids"];
  const auto expected = read_values(file);
  InspectOptions options;
  options.last = expected.at("logits_tail").shape[0];
  Decoder decoder(model, pool(), exact());
  compare(expected, inspect(decoder, model->backbone(), ids_of(recorded), options));
}

TEST_P(Oracle, greedy_ids_are_the_recorded_ones_in_both_modes) {
  if (!facts.contains("greedy_ids") || facts["greedy_ids"].is_null()) GTEST_SKIP() << "no ids recorded here";
  const auto wanted = ids_of(facts["greedy_ids"]);
  for (const auto mode : {kernels::Mode::Exact, kernels::Mode::Fast}) {
    DecoderOptions options;
    options.mode = mode;
    Decoder decoder(model, pool(), options);
    EXPECT_EQ(greedy(decoder, model->backbone(), ids, wanted.size()).ids, wanted);
  }
}

TEST_P(Oracle, draft_logits_are_the_recorded_ones_for_both_hidden_states) {
  const auto file = oracle(GetParam()) / "expected_mtp.safetensors";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no MTP head";
  const auto expected = read_values(file);
  Decoder decoder(model, pool(), exact());
  for (const auto& [kind, name] :
       {std::pair(MtpHidden::Pre, "mtp.logits.pre"), std::pair(MtpHidden::Post, "mtp.logits.post")}) {
    InspectOptions options;
    options.mtp = kind;
    const auto got = inspect(decoder, model->backbone(), ids_of(facts["mtp"]["sequence_ids"]), options);
    EXPECT_EQ(got.back().name, "mtp.logits");
    EXPECT_LE(max_difference(expected.at(name).data, got.back().values), kTolerance) << name;
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Cases, Oracle, testing::ValuesIn(cases()), test_name);

}  // namespace
}  // namespace cortiq::engine
