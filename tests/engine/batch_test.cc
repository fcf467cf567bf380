#include <cstdlib>

#include "base/cpu.h"
#include "base/hash64.h"
#include "support.h"

// One result, however the work is cut: prompts in pieces, other sequences beside, threads, instruction sets.
namespace cortiq::engine {
namespace {

struct Setting {
  const char* name;
  const char* model;
  const char* quant;
  kernels::Mode mode;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

constexpr Setting kSettings[] = {
    {"llama_exact", "dense/llama-tied-gqa", "f32", kernels::Mode::Exact},
    {"llama_q4tp", "dense/llama-tied-gqa", "q4tp", kernels::Mode::Fast},
    {"window_q8", "dense/mistral-window", "q8", kernels::Mode::Fast},
    {"gemma3_q8_2f", "dense/gemma3-new", "q8_2f", kernels::Mode::Fast},
    {"laguna_exact", "hybrid/laguna", "f32", kernels::Mode::Exact},
    {"laguna_q8", "hybrid/laguna", "q8", kernels::Mode::Fast},
    {"next_exact", "hybrid/qwen3_next", "f32", kernels::Mode::Exact},
    {"next_q4", "hybrid/qwen3_next", "q4", kernels::Mode::Fast},
    {"loop_q8", "hybrid/loop_norm", "q8", kernels::Mode::Fast},
};

std::vector<uint32_t> prompt_of(const Model& model, uint64_t length, uint64_t seed = 7) {
  Random random(seed);
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < length; ++i) ids.push_back(static_cast<uint32_t>(random.next() % model.vocab()));
  return ids;
}

class OneResult : public testing::TestWithParam<Setting> {
 protected:
  std::shared_ptr<const Model> model = model_of(GetParam().model, GetParam().quant);
  std::shared_ptr<const Binding> binding = model->backbone();
  DecoderOptions options() const {
    DecoderOptions result;
    result.mode = GetParam().mode;
    return result;
  }
};

TEST_P(OneResult, wherever_the_prompt_is_cut) {
  const auto ids = prompt_of(*model, 150);
  Decoder decoder(model, pool(), options());
  const auto whole = logits_of(decoder, binding, ids);
  for (const uint64_t chunk : {1u, 7u, 64u, 65u, 149u}) {
    EXPECT_EQ(logits_of(decoder, binding, ids, chunk), whole) << chunk;
  }
}

TEST_P(OneResult, whatever_else_is_in_the_batch) {
  Decoder decoder(model, pool(), options());
  std::vector<std::vector<uint32_t>> prompts;
  for (const uint64_t length : {3u, 40u, 1u, 70u, 12u, 5u, 33u, 8u})
    prompts.push_back(prompt_of(*model, length, length));
  std::vector<std::vector<uint32_t>> alone, together(prompts.size());
  for (const auto& prompt : prompts) alone.push_back(greedy(decoder, binding, prompt, 12).ids);
  Scheduler scheduler(decoder, 4);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.binding = binding;
    request.options.max_tokens = 12;
    request.options.sampler = SamplerOptions::greedy();
    request.options.ignore_eos = true;
    request.done = [&together, i](Generated&& generated) { together[i] = generated.ids; };
    scheduler.submit(std::move(request));
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(together, alone);
}

TEST_P(OneResult, on_any_number_of_threads) {
  const auto ids = prompt_of(*model, 70);
  Decoder decoder(model, pool(), options());
  const auto expected = logits_of(decoder, binding, ids);
  for (const size_t threads : {1u, 3u, 8u}) {
    ThreadPool other(threads);
    Decoder with(model, other, options());
    EXPECT_EQ(logits_of(with, binding, ids), expected) << threads;
    EXPECT_EQ(logits_of(with, binding, ids, 1), expected) << threads;
  }
}

TEST_P(OneResult, after_taking_back_rows) {
  const auto ids = prompt_of(*model, 140), other = prompt_of(*model, 8, 99);
  Decoder decoder(model, pool(), options());
  const auto expected = logits_of(decoder, binding, ids, 0, 1);
  const auto sequence = decoder.sequence(binding);
  uint64_t length = 0;
  while (length < ids.size()) {
    // Some wrong ids, taken back, and then the right ones.
    const uint64_t wrong = std::min<uint64_t>(1 + length % 7, sequence->undoable_rows());
    if (wrong > 0) {
      const Piece piece{sequence.get(), std::span(other).first(wrong), Piece::Logits::All};
      decoder.forward({&piece, 1});
      ASSERT_EQ(sequence->rewind(length), length);
    }
    const uint64_t count = std::min<uint64_t>(1 + length % 5, ids.size() - length);
    const Piece piece{sequence.get(), std::span(ids).subspan(length, count), Piece::Logits::Last};
    decoder.forward({&piece, 1});
    length += count;
  }
  const auto row = decoder.logits(0);
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
}

TEST_P(OneResult, prints_a_digest_for_the_next_test) {
  Decoder decoder(model, pool(), options());
  const auto logits = logits_of(decoder, binding, prompt_of(*model, 70), 30);
  const auto* bytes = reinterpret_cast<const uint8_t*>(logits.data());
  std::printf("digest %s\n", hex64(hash64(Bytes(bytes, logits.size() * sizeof(float)))).c_str());
}

TEST_P(OneResult, on_every_instruction_set) {
  std::map<std::string, std::string> digests;
  for (const Isa isa : available_isas()) {
    const std::string command =
        "CORTIQ_ISA=" + std::string(name(isa)) + " " + std::filesystem::read_symlink("/proc/self/exe").string() +
        " --gtest_filter=Settings/OneResult.prints_a_digest_for_the_next_test/" + GetParam().name;
    FILE* out = popen(command.c_str(), "r");
    ASSERT_NE(out, nullptr);
    char line[256];
    while (fgets(line, sizeof(line), out) != nullptr) {
      if (std::string(line).rfind("digest ", 0) == 0) digests[std::string(name(isa))] = line;
    }
    EXPECT_EQ(pclose(out), 0);
  }
  EXPECT_EQ(digests.size(), available_isas().size());
  for (const auto& [isa, digest] : digests) EXPECT_EQ(digest, digests["scalar"]) << isa;
}

INSTANTIATE_TEST_SUITE_P(Settings, OneResult, testing::ValuesIn(kSettings),
                         [](const auto& at) { return std::string(at.param.name); });

}  // namespace
}  // namespace cortiq::engine
