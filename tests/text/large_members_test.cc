#include "text/large_members.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/recorded.h"
#include "text/tokenizer.h"

namespace cortiq::text {
namespace {

constexpr const char* kPlain = R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","unk_token":null,)"
                               R"("vocab":{"a":0,"b":1,"\"":2,"\\":3,"ab":4,"é":5},"merges":["a b"]},"decoder":null})";

std::string with(std::string_view from, std::string_view to) {
  std::string json = kPlain;
  const size_t at = json.find(from);
  if (at == json.npos) throw std::runtime_error("nothing to replace");
  return json.replace(at, from.size(), to);
}

Ids ids(const std::string& json, const std::string& text) {
  return Tokenizer::parse(json, "test.json")->encode(text, false);
}

TEST(LargeMembers, fill_the_tables_and_leave_the_rest_to_the_parser) {
  const auto read = read_large_members(kPlain);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->vocabulary.size(), 6u);
  EXPECT_EQ(read->vocabulary.find("\""), 2u);
  EXPECT_EQ(read->vocabulary.find("\\"), 3u);
  EXPECT_EQ(read->vocabulary.find("é"), 5u);
  EXPECT_EQ(read->vocabulary.find("\\\""), Vocabulary::kNone);
  ASSERT_TRUE(read->merges);
  ASSERT_EQ(read->merges->size(), 1u);
  EXPECT_EQ(read->merges->front().left, "a");
  EXPECT_EQ(read->merges->front().right, "b");
  EXPECT_EQ(read->rest, R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","unk_token":null,)"
                        R"("vocab":{},"merges":[]},"decoder":null})");
}

TEST(LargeMembers, other_spellings_of_a_file_give_the_same_ids) {
  const Ids wanted = {4, 2, 0};
  ASSERT_EQ(ids(kPlain, "ab\"a"), wanted);
  std::string merges_first = with(R"(,"merges":["a b"])", "");
  merges_first.insert(merges_first.find("\"vocab\""), R"("merges":["a b"],)");
  const std::pair<std::string, bool> spellings[] = {
      {with(R"("a":0)", "\n \"a\" :\t0 "), true},
      {with(R"(["a b"])", R"([ ["a" , "b"] ])"), true},
      {with(R"(["a b"])", R"(["#version: 0.2","a b"])"), true},
      {with(R"("a":0)", R"("a":7,"a":0)"), true},  // the last one counts
      {merges_first, true},
      {with(R"("a":0)", R"("\u0061":0)"), true},
      {with(R"("vocab")", R"("voc\u0061b")"), true},
      {with(R"("é":5)", R"("\u00E9":5,"\u0000\u20ac":6)"), true},
      {with(R"("é":5)", R"("\ud83d\ude00":5)"), false},
  };
  for (const auto& [json, plain] : spellings) {
    EXPECT_EQ(read_large_members(json).has_value(), plain) << json;
    EXPECT_EQ(ids(json, "ab\"a"), wanted) << json;
  }
}

TEST(LargeMembers, what_is_wrong_is_never_taken_for_plain) {
  const std::string wrong[] = {
      with(R"("a":0)", R"("a":-1)"),
      with(R"("a":0)", R"("a":1.0)"),
      with(R"("a":0)", R"("a":00)"),
      with(R"("a":0)", R"("a":4294967295)"),
      with(R"("a":0)", R"("a":99999999999999999999)"),
      with(R"("a":0)", R"("a":"0")"),
      with(R"("a":0)", R"("a":0 1)"),
      with(R"("a":0)", R"("a" 0)"),
      with(R"("a":0,)", R"("a":0)"),
      with(R"("a":0)", "\"a\x01\":0"),
      with(R"("a":0)", R"("a\x":0)"),
      with(R"("a":0)", R"("a\u12":0)"),
      with(R"("a":0)", R"("\u+061":0)"),
      with(R"("a":0)", R"("\ud83d":0)"),
      with(R"("é":5)", R"("é":5,)"),
      with(R"(["a b"])", R"(["a b",])"),
      with(R"(["a b"])", R"(["ab"])"),
      with(R"(["a b"])", R"(["a b c"])"),
      with(R"(["a b"])", R"([["a"]])"),
      with(R"(["a b"])", R"([["a","b","c"]])"),
      with(R"(["a b"])", R"([1])"),
      with(R"("type")", R"("vocab":{},"type")"),
      with(R"("version")", R"("model":{"vocab":{}},"version")"),
      with(R"("decoder":null})", R"("decoder":null}})"),
      with(R"("decoder":null)", R"("decoder":)"),
      with(R"("decoder":null)", R"("decoder":nul)"),
      with(R"("added_tokens":[])", R"("added_tokens":[})"),
      with(R"("unk_token":null)", R"("unk_token":[1,,2])"),
  };
  for (const std::string& json : wrong) EXPECT_THROW(Tokenizer::parse(json, "test.json"), Error) << json;
  const std::string whole = kPlain;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(Tokenizer::parse(whole.substr(0, size), "test.json"), Error) << size;
  }
}

TEST(LargeMembers, a_real_file_is_plain_and_gives_what_the_parser_gives) {
  const std::string json = recorded::definition(recorded::own_folder() / "qwen3");
  const auto read = read_large_members(json);
  ASSERT_TRUE(read);
  EXPECT_LT(read->rest.size(), json.size() / 10);
  // A pair of surrogates anywhere sends the whole file to the parser.
  std::string other = json;
  const std::string version = R"("version": "1.0")";
  const size_t at = other.find(version);
  ASSERT_NE(at, other.npos);
  other.replace(at, version.size(), R"("version": "\ud83d\ude00")");
  ASSERT_FALSE(read_large_members(other));
  const auto plain = Tokenizer::parse(json, "plain"), parsed = Tokenizer::parse(other, "parsed");
  ASSERT_EQ(plain->size(), parsed->size());
  for (uint32_t id = 0; id < plain->size(); ++id) ASSERT_EQ(plain->token_of(id), parsed->token_of(id)) << id;
  for (const Json& line : recorded::read_lines(recorded::own_folder() / "strings.jsonl")) {
    const std::string text = line.is_string() ? line.get<std::string>() : line.dump();
    ASSERT_EQ(plain->encode(text, true), parsed->encode(text, true)) << text;
  }
}

}  // namespace
}  // namespace cortiq::text
