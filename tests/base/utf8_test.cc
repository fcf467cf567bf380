#include "base/utf8.h"

#include <gtest/gtest.h>

namespace cortiq {
namespace {

TEST(Utf8, every_scalar_value_survives_the_round_trip) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const Decoded one = decode_utf8(text);
    ASSERT_TRUE(one.valid) << static_cast<uint32_t>(code);
    ASSERT_EQ(one.code, code);
    ASSERT_EQ(one.size, text.size());
    ASSERT_TRUE(valid_utf8(text));
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_FALSE(valid_utf8(text.substr(0, cut)));
      ASSERT_EQ(incomplete_utf8_suffix("ab" + text.substr(0, cut)), cut) << static_cast<uint32_t>(code);
    }
    ASSERT_EQ(incomplete_utf8_suffix(text), 0u);
  }
}

struct Case {
  std::string_view bytes;
  std::string_view replaced;  ///< what Python's and Rust's lossy decoding give
};

TEST(Utf8, ill_formed_sequences_become_one_replacement_per_maximal_part) {
  const Case cases[] = {
      {"\xC0\x80", "\uFFFD\uFFFD"},  // overlong NUL
      {"\xC1\xBF", "\uFFFD\uFFFD"},
      {"\xE0\x80\xAF", "\uFFFD\uFFFD\uFFFD"},  // overlong in three
      {"\xF0\x80\x80\xAF", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},            // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},  // above U+10FFFF
      {"\xF5\x80\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xFF", "\uFFFD"},
      {"\x80", "\uFFFD"},
      {"a\xE2\x82", "a\uFFFD"},  // cut short: one part
      {"\xE2\x82z", "\uFFFDz"},
      {"\xF0\x9F\x98z", "\uFFFDz"},
      {"\xF0\x9F\xE2\x82\xAC", "\uFFFD\u20AC"},
      {"\xE2\xE2\x82\xAC", "\uFFFD\u20AC"},
  };
  for (const Case& one : cases) {
    EXPECT_FALSE(valid_utf8(one.bytes));
    EXPECT_EQ(replace_invalid_utf8(one.bytes), one.replaced);
  }
  EXPECT_EQ(replace_invalid_utf8("fine: \u00e4\U0001F600"), "fine: \u00e4\U0001F600");
  EXPECT_TRUE(valid_utf8(""));
}

TEST(Utf8, what_can_never_be_completed_is_not_an_incomplete_suffix) {
  EXPECT_EQ(incomplete_utf8_suffix(""), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("a\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xC0"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("\xED\xA0"), 0u);  // the start of a surrogate
  EXPECT_EQ(incomplete_utf8_suffix("\xF4\x90"), 0u);
  EXPECT_EQ(incomplete_utf8_suffix("x\xF0\x9F\x98"), 3u);
}

}  // namespace
}  // namespace cortiq
