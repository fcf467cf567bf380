#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "text/recorded.h"
#include "text/regex.h"
#include "text/regex_dfa.h"
#include "text/regex_onig.h"
#include "text/regex_tree.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

using Matches = std::vector<std::pair<size_t, size_t>>;

Matches by_table(const Regex& regex, std::string_view text) {
  RegexMatches matches(regex, text);
  Matches out;
  for (size_t begin = 0, end = 0; matches.next(begin, end);) out.emplace_back(begin, end);
  return out;
}

// The iteration of the genuine library over a backtracking matcher.
Matches by_oniguruma(const OnigPattern& onig, std::string_view text) {
  Matches out;
  size_t from = 0, last = std::string_view::npos, begin = 0, end = 0;
  while (from <= text.size() && onig.find(text, from, begin, end)) {
    if (begin == end && end == last) {
      from += from < text.size() ? code_at(text, from).size : 1;
      continue;
    }
    out.emplace_back(begin, end);
    from = last = end;
  }
  return out;
}

// Patterns of real tokenizers, then small ones for what a table could get wrong.
const char* const kPatterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
    R"( ?[^(\s|[.,!?…。，、।۔،])]+)",
    R"([\p{Han}&&[^一]]+|[\p{L}&&[^\p{Han}]]+)",
    R"(a|ab|abc)",
    R"((?:a|ab)(?:c|bcd)?)",
    R"(a*?b|a{2,3}|a)",
    R"(a{2,4}?)",
    R"((?=[A-Z]))",
    R"(\b)",
    R"(\B.)",
    R"(^.|.$)",
    R"(\A.|.\z)",
    R"((?<=\d)[,.](?=\d)|(?<!\w)\w)",
    R"([[:alpha:]]+|[[:punct:]]|[^[:alpha:][:punct:]])",
    R"(\x{1F600}|\u00e9|\x41|[\t\n -~]x)",
    R"()",
    R"(x*)",
};

std::vector<std::string> texts() {
  std::vector<std::string> out;
  for (const char* file : {"strings.jsonl", "strings_tiny.jsonl"}) {
    for (const Json& line : recorded::read_lines(recorded::own_folder() / file)) out.push_back(line.get<std::string>());
  }
  // Short texts over few characters meet every corner of a small pattern.
  std::mt19937 random(7);
  const char32_t alphabet[] = {'a',  'b',  'c', 'A', '1',  '.',   ',',    ' ',   '\n',
                               '\r', '\'', 's', 'T', 0xE9, 0x301, 0x4E00, 0x17F, 0x1F600};
  for (int i = 0; i < 1500; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) append_utf8(text, alphabet[random() % std::size(alphabet)]);
    out.push_back(text);
  }
  return out;
}

TEST(TokenizerRegex, the_table_finds_what_a_backtracking_matcher_finds) {
  const std::vector<std::string> all = texts();
  for (const char* pattern : kPatterns) {
    SCOPED_TRACE(pattern);
    const Regex regex(pattern, "test");
    const OnigPattern onig(pattern, "test");
    ASSERT_TRUE(regex.linear());
    for (const std::string& text : all) ASSERT_EQ(by_table(regex, text), by_oniguruma(onig, text)) << text;
  }
}

TEST(TokenizerRegex, what_the_table_cannot_say_is_left_to_the_library) {
  for (const char* pattern : {R"((?>\s+)\S)", R"(\p{Han}++)", R"(a(?=bc))", R"((a)\1)", R"((?i:straße))", R"((?i:ss))",
                              R"((?:a*)*)", R"((?i:[a-z]))", R"(a{2}?)", R"(\Z)", R"((?m:.))"}) {
    EXPECT_FALSE(RegexTree::parse(pattern).has_value()) << pattern;
    EXPECT_NO_THROW(Regex(pattern, "test")) << pattern;
  }
  for (const char* pattern : {"(", "[a", "a{", "*", "(?<=a", "[b-a]", "\\p{NoSuchThing}"}) {
    EXPECT_FALSE(RegexTree::parse(pattern).has_value()) << pattern;
  }
  EXPECT_THROW(Regex("(", "test"), Error);
}

TEST(TokenizerRegex, a_pattern_too_large_for_a_table_is_refused_by_the_table) {
  const auto tree = RegexTree::parse("(?:(?:a{1000}){1000}){10}");
  ASSERT_TRUE(tree.has_value());
  EXPECT_FALSE(Dfa::build(*tree).has_value());
}

TEST(TokenizerRegex, nesting_without_end_does_not_overflow_the_stack) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "(?:";
  EXPECT_FALSE(RegexTree::parse(deep).has_value());
  EXPECT_THROW(Regex(deep, "test"), Error);
  EXPECT_FALSE(RegexTree::parse(std::string(5000, '[')).has_value());
}

}  // namespace
}  // namespace cortiq::text
