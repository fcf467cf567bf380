#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cortiq {
namespace {

std::string refusal(std::string_view text, JsonRules rules = {}) {
  try {
    parse_json(text, "config.json", rules);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
    EXPECT_EQ(std::string_view(error.what()).find("config.json: "), 0u) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 60);
  return "";
}

TEST(JsonText, duplicate_keys_are_refused_at_any_depth) {
  EXPECT_NE(refusal(R"({"a": 1, "b": 2, "a": 3})").find("'a'"), std::string::npos);
  EXPECT_NE(refusal(R"([{"x": {"k": 1, "k": 1}}])").find("'k'"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1, \"\\u0061\": 3}").find("'a'"), std::string::npos);  // the same key, spelt otherwise
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": {"a": 1}})", "x"));
}

TEST(JsonText, order_of_keys_is_kept) {
  EXPECT_EQ(parse_json(R"({"z": 1, "a": [true, null], "m": {}})", "x").dump(), R"({"z":1,"a":[true,null],"m":{}})");
}

TEST(JsonText, nesting_is_limited_without_recursion) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(256), "x"));
  EXPECT_NE(refusal(nested(257)).find("256"), std::string::npos);
  refusal(nested(1'000'000));
  refusal(std::string(1'000'000, '['));
  EXPECT_NO_THROW(parse_json(nested(10), "x", {10, false}));
  refusal(nested(11), {10, false});
}

TEST(JsonText, a_byte_order_mark_is_refused_unless_allowed) {
  EXPECT_NE(refusal("\xEF\xBB\xBF{}").find("byte-order mark"), std::string::npos);
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{}", "x", {256, true}).dump(), "{}");
  refusal("\xEF\xBB\xBF\xEF\xBB\xBF{}", {256, true});
}

TEST(JsonText, what_the_standard_excludes_is_refused) {
  for (const char* bad : {"",      " ",   "{",        "[1,]",      "{\"a\":1,}", "{'a':1}", "NaN",      "Infinity",
                          "[nan]", "01",  "+1",       ".5",        "1.",         "1e",      "tru",      "\"\n\"",
                          "{} {}", "{}x", "// c\n{}", "\"\\u12\"", "\"\\x41\"",  "[1 2]",   "{\"a\" 1}"}) {
    refusal(bad);
  }
  refusal("1e400");             // beyond double
  refusal("\"\xFF\"");          // not UTF-8
  refusal("\"\xED\xA0\x80\"");  // an encoded surrogate
  refusal("\"\\ud800\"");       // an escaped surrogate without its partner
  refusal("\xFF\xFE{\0}\0");    // UTF-16
  EXPECT_EQ(parse_json("\"\\ud83d\\ude00\"", "x").get<std::string>(), "\U0001F600");
}

TEST(JsonText, large_documents_parse_in_linear_time) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  const Json json = parse_json(text, "x");
  EXPECT_EQ(json.size(), 200'000u);
  EXPECT_EQ(json.back().get<int>(), 199'999);
}

TEST(JsonText, integers_keep_all_64_bits) {
  EXPECT_EQ(parse_json("18446744073709551615", "x").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "x").get<int64_t>(), INT64_MIN);
  EXPECT_TRUE(parse_json("18446744073709551616", "x").is_number_float());
}

TEST(JsonText, errors_do_not_quote_the_input_raw) {
  const std::string says = refusal("{\"a\x1b[31m\": \x01}");
  for (const char c : says) EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
}

}  // namespace
}  // namespace cortiq
