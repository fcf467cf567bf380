#include "engine/binding.h"

#include "engine/route.h"
#include "support.h"

// Masks, skills, blends, expert sets and routing, alone and side by side in one batch.
namespace cortiq::engine {
namespace {

constexpr double kTolerance = 1e-3;

cmf::Mask mask_of(const Json& json, const cmf::Arch& arch) {
  cmf::Mask mask;
  mask.task_id = 1;
  mask.name = "case";
  mask.priority = "Normal";
  mask.per_visit = arch.num_loops > 1 && json["ffn_row_index"].get<std::string>().rfind("visit", 0) == 0;
  mask.ffn.assign(arch.num_layers * (mask.per_visit ? arch.num_loops : 1),
                  std::vector<uint8_t>(arch.intermediate_size, 1));
  mask.heads.assign(arch.num_layers, std::vector<uint8_t>(arch.num_attention_heads, 1));
  mask.gates.assign(arch.num_layers, 1);
  const auto close = [](auto& rows, const Json& lists) {
    for (const auto& [row, indices] : lists.items()) {
      for (const uint32_t i : ids_of(indices)) rows[std::stoul(row)][i] = 0;
    }
  };
  close(mask.ffn, json["ffn_inactive"]);
  close(mask.heads, json["heads_inactive"]);
  for (const uint32_t layer : ids_of(json["gates_closed"])) mask.gates[layer] = 0;
  mask.has_expert_fields = json["has_expert_fields"].get<bool>();
  if (mask.has_expert_fields) {
    mask.experts.assign(arch.num_layers, std::vector<uint8_t>(arch.moe->num_experts, 1));
    for (const auto& [layer, admitted] : json["experts_routable"].items()) {
      auto& row = mask.experts[std::stoul(layer)];
      std::fill(row.begin(), row.end(), uint8_t{0});
      for (const uint32_t e : ids_of(admitted)) row[e] = 1;
    }
  }
  return mask;
}

class Masked : public testing::TestWithParam<std::string> {};

TEST_P(Masked, equals_the_network_with_those_parts_zeroed) {
  const auto folder = oracle("hybrid/masked/" + GetParam());
  const Json facts = read_json(folder / "case.json");
  const auto base = std::filesystem::weakly_canonical(folder / facts["base"].get<std::string>());
  cmf::Masks masks;
  masks.masks.push_back(mask_of(facts["mask"], model_of("hybrid/" + base.filename().string())->arch()));
  const auto model = Model::load(convert_case(base, "f32", &masks));
  BindingSpec spec;
  spec.task = "case";
  const auto binding = model->bind(spec);
  EXPECT_EQ(binding->task(), "case");
  Decoder decoder(model, pool(), exact());
  const auto expected = read_values(folder / "expected.safetensors");
  const auto ids = ids_of(facts["prompt_ids"]);
  const auto masked = logits_of(decoder, binding, ids);
  EXPECT_LE(max_difference(expected.at("logits").data, masked), kTolerance);
  EXPECT_EQ(logits_of(decoder, binding, ids, 5), masked);
  // Masked and dense rows in one batch leave each other alone.
  const auto dense = model->backbone();
  const auto a = decoder.sequence(binding), b = decoder.sequence(dense);
  const Piece pieces[] = {{b.get(), ids, Piece::Logits::All}, {a.get(), ids, Piece::Logits::All}};
  decoder.forward(pieces);
  std::vector<float> mixed, plain;
  for (uint64_t row = 0; row < ids.size(); ++row) {
    plain.insert(plain.end(), decoder.logits(row).begin(), decoder.logits(row).end());
    const auto second = decoder.logits(ids.size() + row);
    mixed.insert(mixed.end(), second.begin(), second.end());
  }
  EXPECT_EQ(mixed, masked);
  EXPECT_EQ(plain, logits_of(decoder, dense, ids));
  if (facts.contains("greedy_ids") && !facts["greedy_ids"].is_null()) {
    const auto wanted = ids_of(facts["greedy_ids"]);
    EXPECT_EQ(greedy(decoder, binding, ids, wanted.size()).ids, wanted);
  }
}

std::vector<std::string> masked_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(oracle("hybrid/masked"))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Cases, Masked, testing::ValuesIn(masked_cases()), [](const auto& at) { return at.param; });

TEST(Masks, a_full_mask_is_no_mask) {
  const auto dense = model_of("hybrid/dense_base");
  const cmf::Arch& arch = dense->arch();
  const Json nothing = Json::parse(R"({"ffn_inactive":{},"heads_inactive":{},"gates_closed":[],"ffn_row_index":"layer",
                                       "has_expert_fields":false,"experts_routable":{}})");
  cmf::Masks masks;
  masks.masks.push_back(mask_of(nothing, arch));
  masks.masks.back().priority = "Fallback";
  const auto model = Model::load(convert_case(oracle("hybrid/dense_base"), "f32", &masks));
  const auto binding = model->bind({});
  EXPECT_EQ(binding->task(), "case");  // the fallback runs when nobody asks (decisions 24)
  EXPECT_FALSE(binding->masked());
  EXPECT_EQ(binding->identity(), model->backbone()->identity());
  EXPECT_EQ(binding->warnings().size(), 2u);  // never measured, and leaves everything active
  BindingSpec unknown;
  unknown.task = "nothing";
  EXPECT_THROW(model->bind(unknown), Error);
}

// A file with the oracle's two skills and three routing records.
std::string swarm() {
  const auto folder = oracle("hybrid/skill");
  convert::ConvertOptions options;
  options.quant = "f32";
  convert::Plan plan = convert::make_plan(oracle("hybrid/dense_base").string(), options, pool());
  Json skills = Json::array();
  for (const std::string id : {"a", "b"}) {
    const auto source = convert::open_safetensors_file((folder / ("skill_" + id + ".safetensors")).string());
    plan.sources.push_back(source);
    for (const convert::SourceTensor& tensor : source->tensors()) {
      convert::PlannedTensor planned;
      planned.name = "skill." + id + "." + tensor.name;
      planned.dtype = tensor.shape.size() == 2 ? codec::Dtype::F32 : codec::Dtype::F16;
      planned.shape.rank = static_cast<uint8_t>(tensor.shape.size());
      for (size_t i = 0; i < tensor.shape.size(); ++i) planned.shape.dims[i] = static_cast<uint32_t>(tensor.shape[i]);
      planned.recipe.source = source.get();
      planned.recipe.tensor = &tensor;
      plan.tensors.push_back(planned);
    }
    skills.push_back({{"id", id}, {"name", id}});
  }
  const Json routing = read_json(oracle("hybrid/routing/case.json"));
  for (const Json& record : routing["skills"]) {
    skills.push_back({{"id", record["id"]}, {"name", record["id"]}, {"selection", record["selection"]}});
  }
  plan.contents.header["skills"] = skills;
  const std::string path = (scratch() / "swarm.cmf").string();
  convert::execute(plan, path, pool(), Progress::none(), Cancellation());
  return path;
}
std::shared_ptr<const Model> swarm_model() {
  static const auto model = Model::load(swarm());
  return model;
}

TEST(Skills, replace_what_they_bring_and_blend) {
  const Json facts = read_json(oracle("hybrid/skill/case.json"));
  const auto expected = read_values(oracle("hybrid/skill/expected.safetensors"));
  const auto model = swarm_model();
  Decoder decoder(model, pool(), exact());
  const auto ids = ids_of(facts["prompt_ids"]);
  for (const auto& [id, skill] : facts["skills"].items()) {
    BindingSpec spec;
    spec.skill = id;
    const auto binding = model->bind(spec);
    const auto found = expected.count("logits." + id) != 0 ? "logits." + id : "logits.skill." + id;
    EXPECT_LE(max_difference(expected.at(found).data, logits_of(decoder, binding, ids)), kTolerance) << id;
    const auto wanted = ids_of(skill["greedy_ids"]);
    EXPECT_EQ(greedy(decoder, binding, ids, wanted.size()).ids, wanted);
  }
  for (const Json& blend : facts["blends"]) {
    BindingSpec spec;
    for (const auto& [id, weight] : blend["weights"].items()) spec.blend.emplace_back(id, weight.get<double>());
    const auto binding = model->bind(spec);
    EXPECT_LE(max_difference(expected.at(blend["tensor"].get<std::string>()).data, logits_of(decoder, binding, ids)),
              kTolerance);
  }
}

TEST(Skills, in_one_batch_equal_each_alone) {
  const auto model = swarm_model();
  BindingSpec a, b, blend;
  a.skill = "a";
  b.skill = "b";
  blend.blend = {{"a", 0.3}, {"b", 0.7}};
  const std::shared_ptr<const Binding> bindings[] = {model->bind(a), model->backbone(), model->bind(b),
                                                     model->bind(blend), model->bind(a)};
  Decoder decoder(model, pool(), {});
  const auto prompt = ids_of(read_json(oracle("hybrid/skill/case.json"))["prompt_ids"]);
  std::vector<std::vector<uint32_t>> alone, together(5);
  for (size_t i = 0; i < 5; ++i) {
    alone.push_back(greedy(decoder, bindings[i], {prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(i)}, 20).ids);
  }
  Scheduler scheduler(decoder, 5);
  for (size_t i = 0; i < 5; ++i) {
    Request request;
    request.prompt.assign(prompt.begin(), prompt.end() - static_cast<ptrdiff_t>(i));
    request.binding = bindings[i];
    request.options.max_tokens = 20;
    request.options.sampler = SamplerOptions::greedy();
    request.options.ignore_eos = true;
    request.done = [&together, i](Generated&& generated) { together[i] = generated.ids; };
    scheduler.submit(std::move(request));
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(together, alone);
}

TEST(Skills, unknown_ids_are_refused_by_name) {
  BindingSpec spec;
  spec.skill = "nobody";
  EXPECT_THROW(swarm_model()->bind(spec), Error);
}

TEST(Skills, the_prefix_of_one_binding_is_never_used_under_another) {
  const auto model = swarm_model();
  BindingSpec a;
  a.skill = "a";
  Decoder decoder(model, pool(), {});
  const auto prompt = ids_of(read_json(oracle("hybrid/skill/case.json"))["prompt_ids"]);
  const auto skilled = greedy(decoder, model->bind(a), prompt, 8).ids;
  const auto plain = greedy(decoder, model->backbone(), prompt, 8).ids;
  ASSERT_NE(skilled, plain);
  PrefixCache prefixes(4);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(greedy(decoder, model->bind(a), prompt, 8, MtpChoice::Off, &prefixes).ids, skilled);
    EXPECT_EQ(greedy(decoder, model->backbone(), prompt, 8, MtpChoice::Off, &prefixes).ids, plain);
  }
  const Generated reused = greedy(decoder, model->backbone(), prompt, 8, MtpChoice::Off, &prefixes);
  EXPECT_EQ(reused.reused_tokens, prompt.size() - 1);
}

TEST(Routing, energies_are_the_recorded_ones) {
  const Json facts = read_json(oracle("hybrid/routing/case.json"));
  Decoder decoder(swarm_model(), pool(), exact(16));
  for (const Json& probe : facts["probes"]) {
    const auto ids = ids_of(probe["prompt_ids"]);
    const Routing routing = route(decoder, {ids, ids});
    EXPECT_EQ(routing.choice, probe["choice"].get<std::string>());
    for (const Routing::Energy& energy : routing.energies) {
      const double wanted = probe["energy"][energy.id].get<double>();
      EXPECT_NEAR(energy.value, wanted, 1e-3 * std::max(1.0, wanted)) << energy.id;
    }
    EXPECT_EQ(routing.energies.size(), probe["energy"].size());
  }
}

TEST(Experts, a_cover_admits_the_fewest_and_routes_like_the_cut_model) {
  for (const char* name : {"qwen2_moe_0", "qwen3_moe_0"}) {
    const auto folder = oracle(std::string("hybrid/moe_cut/") + name);
    const Json facts = read_json(folder / "case.json");
    const auto base = std::filesystem::weakly_canonical(folder / facts["base"].get<std::string>());
    const auto model = model_of("hybrid/" + base.filename().string());
    BindingSpec spec;
    spec.experts = admitted_by_cover(parse_expert_counts(facts["stats"], *model), facts["cover"].get<double>());
    for (const auto& [layer, kept] : facts["kept"].items()) EXPECT_EQ(spec.experts[std::stoul(layer)], ids_of(kept));
    Decoder decoder(model, pool(), exact());
    const auto ids = ids_of(facts["prompt_ids"]);
    EXPECT_LE(max_difference(read_values(folder / "expected.safetensors").at("logits").data,
                             logits_of(decoder, model->bind(spec), ids)),
              kTolerance);
  }
}

TEST(Experts, every_choice_is_counted_once) {
  const auto model = model_of("hybrid/qwen3_moe");
  Decoder decoder(model, pool(), {});
  ExpertCounts counts;
  decoder.count_experts(&counts);
  const std::vector<uint32_t> ids(40, 3);
  logits_of(decoder, model->backbone(), ids, 7);
  decoder.count_experts(nullptr);
  uint64_t total = 0;
  for (const auto& layer : counts) {
    for (const uint64_t count : layer) total += count;
  }
  EXPECT_EQ(total, 40u * 2 * 2);  // two sparse layers, two experts each
}

TEST(Blends, malformed_weights_are_refused) {
  EXPECT_EQ(parse_blend("a:1,b.c:0.5").size(), 2u);
  for (const char* text : {"", "a", "a:", ":1", "a:x", "a:-1", "a:nan", "a:1,,b:2", "a:0"}) {
    EXPECT_THROW(parse_blend(text), Error) << text;
  }
}

}  // namespace
}  // namespace cortiq::engine
