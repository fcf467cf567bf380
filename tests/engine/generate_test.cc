#include <fstream>

#include "support.h"

// Limits, cancellation, broken numbers, reuse of prefixes, speculation.
namespace cortiq::engine {
namespace {

std::vector<uint32_t> some_ids(uint64_t count, uint64_t vocab, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < count; ++i) ids.push_back(static_cast<uint32_t>(random.next() % vocab));
  return ids;
}

TEST(Context, prompts_at_and_beyond_the_limit) {
  ModelOptions options;
  options.context = 64;
  const auto model = Model::load(convert_case(oracle("dense/llama-tied-gqa")), options);
  ASSERT_EQ(model->context(), 64u);
  Decoder decoder(model, pool(), {});
  for (const uint64_t length : {63u, 64u}) {
    const Generated result = greedy(decoder, model->backbone(), some_ids(length, model->vocab(), 1), 10);
    EXPECT_EQ(result.ids.size(), 64 - length);
    EXPECT_EQ(result.finish, Finish::Length);
  }
  try {
    greedy(decoder, model->backbone(), some_ids(65, model->vocab(), 1), 10);
    FAIL() << "65 ids were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Bounds);
    EXPECT_NE(std::string(error.what()).find("65"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64"), std::string::npos);
  }
  EXPECT_TRUE(greedy(decoder, model->backbone(), some_ids(5, model->vocab(), 1), 0).ids.empty());
  EXPECT_EQ(greedy(decoder, model->backbone(), some_ids(1, model->vocab(), 1), 3).ids.size(), 3u);
  EXPECT_THROW(greedy(decoder, model->backbone(), {}, 3), Error);
  EXPECT_THROW(greedy(decoder, model->backbone(), {static_cast<uint32_t>(model->vocab())}, 3), Error);
}

TEST(Cancelling, stops_the_request_and_says_so) {
  const auto model = model_of("dense/llama-tied-gqa");
  Decoder decoder(model, pool(), {});
  Cancellation cancel;
  GenerateOptions options;
  options.ignore_eos = true;
  options.sampler = SamplerOptions::greedy();
  uint64_t seen = 0;
  const Generated result = generate(decoder, {1, 2, 3}, model->backbone(), options, cancel, [&](uint32_t) {
    if (++seen == 4) cancel.request();
    return true;
  });
  EXPECT_EQ(result.finish, Finish::Cancelled);
  EXPECT_EQ(result.ids.size(), 4u);
}

// A copy of a file with one row of a float tensor made NaN. Hashes are not looked at when a model is opened.
std::string with_nan_row(const std::string& file, std::string_view tensor, uint64_t row) {
  const auto opened = cmf::File::open(file);
  const cmf::Tensor* found = opened->find(tensor);
  const Bytes payload = opened->payload(*found);
  const uint64_t width = payload.size() / found->shape.rows();
  std::string bytes(opened->mapping().bytes().text());
  const uint64_t at = static_cast<uint64_t>(payload.data() - opened->mapping().bytes().data()) + row * width;
  std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), width, '\xff');
  const std::string path = file + ".nan";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(Numbers, that_are_none_end_their_request_and_no_other) {
  // Untied: id 5's embedding is NaN, the head is sound.
  const std::string file = convert_case(oracle("dense/mistral-window"), "f16");
  const auto model = Model::load(with_nan_row(file, "model.embed_tokens.weight", 5));
  for (const auto mode : {kernels::Mode::Exact, kernels::Mode::Fast}) {
    DecoderOptions options;
    options.mode = mode;
    Decoder decoder(model, pool(), options);
    const auto clean = greedy(decoder, model->backbone(), {1, 2, 3}, 6).ids;
    std::vector<uint32_t> survived;
    std::string failure;
    Scheduler scheduler(decoder, 2);
    for (const std::vector<uint32_t>& prompt : {std::vector<uint32_t>{1, 5, 3}, {1, 2, 3}}) {
      Request request;
      request.prompt = prompt;
      request.binding = model->backbone();
      request.options.max_tokens = 6;
      request.options.sampler = SamplerOptions::greedy();
      request.options.ignore_eos = true;
      request.done = [&](Generated&& generated) { survived = generated.ids; };
      request.failed = [&](const Error& error) { failure = error.what(); };
      scheduler.submit(std::move(request));
    }
    while (scheduler.step()) {
    }
    EXPECT_EQ(survived, clean);
    EXPECT_NE(failure.find("not finite"), std::string::npos) << failure;
    EXPECT_THROW(greedy(decoder, model->backbone(), {5}, 3), Error);
    EXPECT_THROW(logits_of(decoder, model->backbone(), std::vector<uint32_t>{1, 2, 5}), Error);
  }
}

class Reuse : public testing::TestWithParam<const char*> {};

TEST_P(Reuse, of_any_prefix_gives_the_ids_of_a_fresh_run) {
  const auto model = model_of(GetParam());
  Decoder decoder(model, pool(), {});
  PrefixCache prefixes(3);
  Random random(11);
  std::vector<std::vector<uint32_t>> told = {some_ids(90, model->vocab(), 5), some_ids(30, model->vocab(), 6)};
  uint64_t reused = 0;
  for (int round = 0; round < 24; ++round) {
    // A beginning of something told before, at times the whole of it, and something new.
    std::vector<uint32_t> prompt = told[random.next() % told.size()];
    if (random.next() % 2 == 0) prompt.resize(1 + random.next() % prompt.size());
    const auto more = some_ids(1 + random.next() % 20, model->vocab(), random.next());
    prompt.insert(prompt.end(), more.begin(), more.end());
    const Generated warm = greedy(decoder, model->backbone(), prompt, 6, MtpChoice::Post, &prefixes);
    ASSERT_EQ(warm.ids, greedy(decoder, model->backbone(), prompt, 6).ids) << round;
    reused += warm.reused_tokens;
    prompt.insert(prompt.end(), warm.ids.begin(), warm.ids.end());
    told.push_back(prompt);
  }
  EXPECT_GT(reused, 0u);
}
INSTANTIATE_TEST_SUITE_P(Models, Reuse,
                         testing::Values("dense/llama-tied-gqa", "dense/mistral-window", "hybrid/qwen3_next",
                                         "hybrid/laguna", "hybrid/qwen3_5_mtp", "hybrid/qwen3_dsmtp"));

class Drafts : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Drafts, never_change_an_id) {
  const auto model = model_of(std::get<0>(GetParam()), std::get<1>(GetParam()));
  ASSERT_NE(model->mtp(), nullptr);
  Decoder decoder(model, pool(), {});
  uint64_t accepted = 0, rejected = 0;
  for (const uint64_t length : {1u, 20u, 63u, 130u}) {
    const auto prompt = some_ids(length, model->vocab(), length);
    const auto plain = greedy(decoder, model->backbone(), prompt, 150);
    EXPECT_EQ(plain.drafted, 0u);
    for (const MtpChoice choice : {MtpChoice::Pre, MtpChoice::Post, MtpChoice::Auto}) {
      const auto drafted = greedy(decoder, model->backbone(), prompt, 150, choice);
      EXPECT_EQ(drafted.ids, plain.ids) << length;
      if (choice != MtpChoice::Auto) {
        EXPECT_GE(drafted.drafted + 1, drafted.ids.size() - 1);  // each after the first, but perhaps the last
      }
      accepted += drafted.accepted;
      rejected += drafted.drafted - drafted.accepted;
    }
  }
  // Both ways of a verification ran.
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(rejected, 0u);
}
INSTANTIATE_TEST_SUITE_P(Models, Drafts,
                         testing::Combine(testing::Values("hybrid/qwen3_5_mtp", "hybrid/qwen3_dsmtp"),
                                          testing::Values("f32", "q8", "q4tp")));

TEST(Drafts, of_several_sequences_at_once) {
  const auto model = model_of("hybrid/qwen3_5_mtp");
  Decoder decoder(model, pool(), {});
  std::vector<std::vector<uint32_t>> alone, together(4);
  for (uint64_t i = 0; i < 4; ++i) {
    alone.push_back(greedy(decoder, model->backbone(), some_ids(3 + 17 * i, model->vocab(), i), 60).ids);
  }
  Scheduler scheduler(decoder, 3, nullptr, MtpChoice::Auto);
  for (uint64_t i = 0; i < 4; ++i) {
    Request request;
    request.prompt = some_ids(3 + 17 * i, model->vocab(), i);
    request.binding = model->backbone();
    request.options.max_tokens = 60;
    request.options.sampler = SamplerOptions::greedy();
    request.options.ignore_eos = true;
    request.done = [&together, i](Generated&& generated) { together[i] = generated.ids; };
    scheduler.submit(std::move(request));
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(together, alone);
}

}  // namespace
}  // namespace cortiq::engine
