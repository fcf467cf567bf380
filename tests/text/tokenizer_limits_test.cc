#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <thread>

#include "base/error.h"
#include "text/recorded.h"

// Adversarial text: time, stack, limits; many threads; streaming.
namespace cortiq::text {
namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::shared_ptr<const Tokenizer> own(const std::string& name) { return recorded::load(recorded::own_folder() / name); }

std::string repeat(std::string_view unit, size_t bytes) {
  std::string out;
  while (out.size() + unit.size() <= bytes) out += unit;
  return out;
}

const char* const kTokenizers[] = {
    "gpt2",           "bert-base-cased",   "tiny-bpe-bytefallback", "tiny-unigram-nosplit", "tiny-bytelevel-no-pre",
    "tiny-norm-nfkc", "tiny-added-lrstrip"};
const char* const kUnits[] = {"a",  "_",         " ",     "\n", "\u0301", "\U0001F600", "\U0001F468\u200D",
                              "中", "{\"a\":1,", "\uFFFD"};

TEST(TokenizerLimits, one_megabyte_of_anything_takes_linear_time) {
  constexpr size_t kSize = 1'000'000;
  for (const char* name : kTokenizers) {
    const auto tokenizer = own(name);
    for (const char* unit : kUnits) {
      SCOPED_TRACE(std::string(name) + " on '" + unit + "'");
      const auto seconds = [&](size_t bytes) {
        const std::string text = repeat(unit, bytes);
        const double start = cpu_seconds();
        tokenizer->encode(text, false);
        return cpu_seconds() - start;
      };
      const double half = seconds(kSize / 2), whole = seconds(kSize);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
      EXPECT_LT(whole, 2.0);
#endif
      // Twice the text, twice the time; the rest is what caches and a busy machine do.
      EXPECT_LT(whole, 3.5 * half + 0.1);
    }
  }
}

struct Job {
  const Tokenizer* tokenizer;
  std::string text;
  bool done = false;
};

TEST(TokenizerLimits, a_small_stack_is_enough) {
  const std::string texts[] = {repeat("\n\n", 100'000), repeat("Z", 131'072), repeat("A", 43'000),
                               repeat("  \t", 99'999), repeat("\u0301", 100'000)};
  for (const char* name : kTokenizers) {
    const auto tokenizer = own(name);
    for (const std::string& text : texts) {
      Job job{tokenizer.get(), text};
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
      pthread_t thread{};
      const auto run = [](void* argument) -> void* {
        auto& work = *static_cast<Job*>(argument);
        work.tokenizer->encode(work.text, false);
        work.done = true;
        return nullptr;
      };
      ASSERT_EQ(pthread_create(&thread, &attributes, run, &job), 0);
      pthread_join(thread, nullptr);
      pthread_attr_destroy(&attributes);
      EXPECT_TRUE(job.done) << name;
    }
  }
}

// A small tokenizer that splits by a pattern, which must need no escapes but for backslashes.
std::string with_split(const std::string& pattern) {
  std::string escaped, json = recorded::read(recorded::data_folder() / "failures/regex_empty.json");
  for (const char c : pattern) escaped += c == '\\' ? std::string("\\\\") : std::string(1, c);
  const std::string key = "\"Regex\":";
  const size_t at = json.find('"', json.find(key) + key.size());
  return json.insert(at + 1, escaped);
}

TEST(TokenizerLimits, a_pattern_that_explodes_elsewhere_is_matched_in_linear_time) {
  const auto tokenizer =
      Tokenizer::parse(recorded::read(recorded::data_folder() / "failures/regex_exponential.json"), "x");
  const double start = cpu_seconds();
  EXPECT_FALSE(tokenizer->encode(repeat("a", 40) + "b", false).empty());
  EXPECT_LT(cpu_seconds() - start, 0.5);
}

TEST(TokenizerLimits, an_exceeded_limit_is_an_error_that_names_the_pattern_and_never_no_match) {
  const std::string pattern = "((a|aa)+)+\\2\\1c";
  const auto tokenizer = Tokenizer::parse(with_split(pattern), "x");
  try {
    tokenizer->encode(repeat("a", 60) + "b", false);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
    EXPECT_NE(std::string(error.what()).find("((a|aa)+)+"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(tokenizer->encode("abc the", false).empty());
}

TEST(TokenizerLimits, several_threads_get_the_same_ids) {
  const auto tokenizer = own("qwen3");
  std::string text;
  for (const Json& line : recorded::read_lines(recorded::own_folder() / "strings.jsonl"))
    text += line.get<std::string>();
  const Ids alone = tokenizer->encode(text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) EXPECT_EQ(tokenizer->encode(text, true), alone);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerLimits, large_vocabularies_load_quickly) {
  const std::string json = recorded::definition(recorded::own_folder() / "gpt-oss");
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = cpu_seconds();
    EXPECT_GT(Tokenizer::parse(json, "gpt-oss")->size(), 200'000u);
    best = std::min(best, cpu_seconds() - start);
  }
  RecordProperty("milliseconds", static_cast<int>(best * 1e3));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best, 0.5) << "the target is 0.1 s on an idle machine; this limit only catches a quadratic slip";
#endif
}

TEST(StreamDecoder, a_character_over_two_tokens_waits_until_it_is_whole) {
  const auto tokenizer = own("tiny-bytelevel-regex");
  const Ids ids = tokenizer->encode("a\U0001F9FF", false);
  ASSERT_GT(ids.size(), 2u) << "the character is one token here: choose another";
  StreamDecoder decoder(tokenizer, false);
  EXPECT_EQ(decoder.push(ids[0]), "a");
  for (size_t i = 1; i + 1 < ids.size(); ++i) EXPECT_EQ(decoder.push(ids[i]), "");
  EXPECT_EQ(decoder.push(ids.back()), "\U0001F9FF");
  EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, an_impossible_continuation_is_replaced_at_once_and_the_rest_at_the_end) {
  const auto tokenizer = own("tiny-bytelevel-regex");
  const uint32_t lead = *tokenizer->id_of("ð"), a = *tokenizer->id_of("a");
  StreamDecoder decoder(tokenizer, false);
  EXPECT_EQ(decoder.push(lead), "");
  EXPECT_EQ(decoder.push(a), "\uFFFDa");
  EXPECT_EQ(decoder.push(lead), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.push(a), "a") << "a new text begins after flush()";
}

TEST(StreamDecoder, leading_spaces_go_once_per_text_not_once_per_part) {
  for (const char* name : {"tiny-bpe-bytefallback", "tiny-metaspace-always-split", "tiny-dec-fuse-first"}) {
    const auto tokenizer = own(name);
    const std::string text = "  the  cat sat";
    const Ids ids = tokenizer->encode(text, false);
    StreamDecoder decoder(tokenizer, false);
    std::string out;
    for (const uint32_t id : ids) out += decoder.push(id);
    EXPECT_EQ(out + decoder.flush(), tokenizer->decode(ids, false)) << name;
  }
}

}  // namespace
}  // namespace cortiq::text
