#include <gtest/gtest.h>

#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/recorded.h"
#include "text/unicode.h"

// The generated tables against the probed ones they were made of, code point by code point.
namespace cortiq::text {
namespace {

Json probed(const char* file) { return Json::parse(recorded::read(recorded::data_folder() / "unicode" / file)); }

std::vector<bool> members(const Json& ranges) {
  std::vector<bool> out(kLastCode + 1);
  for (const Json& range : ranges) {
    for (size_t c = range[0].get<size_t>(); c <= range[1].get<size_t>(); ++c) out[c] = c < 0xD800 || c > 0xDFFF;
  }
  return out;
}

void expect_same(const Json& ranges, const std::vector<bool>& ours, const std::string& name) {
  const std::vector<bool> theirs = members(ranges);
  for (size_t c = 0; c <= kLastCode; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    ASSERT_EQ(ours[c], theirs[c]) << name << " at " << std::hex << c;
  }
}

TEST(UnicodeTables, classes_of_regular_expressions) {
  const Json classes = probed("classes.json");
  for (const char* name :
       {"\\p{L}", "\\p{Lu}", "\\p{N}", "\\p{M}", "\\p{P}", "\\p{S}", "\\p{Han}", "\\p{White_Space}"}) {
    std::string key = std::string(name).substr(3, std::string(name).size() - 4);
    std::erase(key, '_');
    for (char& c : key) c = static_cast<char>(std::tolower(c));
    const CodeSet* set = named_class(key);
    ASSERT_NE(set, nullptr) << key;
    std::vector<bool> ours(kLastCode + 1);
    for (const CodeRange& range : *set) {
      for (char32_t c = range.first; c <= range.last; ++c) ours[c] = true;
    }
    expect_same(classes["onig " + std::string(name)], ours, name);
  }
  EXPECT_EQ(named_class("no such class"), nullptr);
}

TEST(UnicodeTables, traits_of_characters) {
  const std::pair<const char*, uint32_t> kKeys[] = {
      {"punctuation (Punctuation, BertPreTokenizer)", kPunctuation},
      {"whitespace (WhitespaceSplit, Strip, BertPreTokenizer)", kWhiteSpace},
      {"numeric (Digits)", kNumeric},
      {"word (Whitespace; single_word of added tokens uses the same class)", kWord},
      {"removed by StripAccents", kAccent},
      {"removed by BertNormalizer clean_text", kBertRemoved},
      {"turned into a space by BertNormalizer clean_text", kBertSpace},
      {"surrounded by spaces by BertNormalizer handle_chinese_chars", kBertChinese},
      {"removed by BertNormalizer strip_accents (after NFD)", kBertAccent},
      {"removed by Nmt", kNmtRemoved},
      {"turned into a space by Nmt", kNmtSpace}};
  const Json classes = probed("classes.json");
  for (const auto& [key, trait] : kKeys) {
    std::vector<bool> ours(kLastCode + 1);
    for (char32_t c = 0; c <= kLastCode; ++c) ours[c] = (traits(c) & trait) != 0;
    expect_same(classes[key], ours, key);
  }
}

std::string normalized(const Normalizer& normalizer, const std::string& text) {
  AlignedText aligned;
  aligned.assign(text, {0, text.size()}, true);
  normalizer.apply(aligned);
  return std::string(aligned.text());
}

// Every code point that a mapping changes, and that no other is changed.
TEST(UnicodeTables, normal_forms_and_lower_case_of_every_code_point) {
  std::map<char32_t, Json> rows;
  for (Json& row : recorded::read_lines(recorded::data_folder() / "unicode/maps.jsonl")) {
    const auto code = row["c"].get<char32_t>();
    rows.emplace(code, std::move(row));
  }
  const auto make = [](const char* type) { return parse_normalizer({{"type", type}}, "test"); };
  const auto nfd = make("NFD"), nfkd = make("NFKD"), nfc = make("NFC"), nfkc = make("NFKC"), lower = make("Lowercase");
  const auto spelled = [](const Json& codes) {
    std::string out;
    for (const Json& code : codes) append_utf8(out, code.get<char32_t>());
    return out;
  };
  for (char32_t c = 0; c <= kLastCode; ++c) {
    if ((c >= 0xD800 && c <= 0xDFFF) || (c >= 0xAC00 && c <= 0xD7A3)) continue;
    std::string one;
    append_utf8(one, c);
    const auto found = rows.find(c);
    const auto want = [&](const char* key, const std::string& otherwise) {
      return found != rows.end() && found->second.contains(key) ? spelled(found->second[key]) : otherwise;
    };
    const std::string d = want("nfd", one), kd = want("nfkd", d), n = want("nfc", one);
    ASSERT_EQ(normalized(*nfd, one), d) << std::hex << uint32_t{c};
    ASSERT_EQ(normalized(*nfkd, one), kd) << std::hex << uint32_t{c};
    ASSERT_EQ(normalized(*nfc, one), n) << std::hex << uint32_t{c};
    // Recorded only where it differs from both.
    const std::string kc = normalized(*nfkc, one);
    if (found != rows.end() && found->second.contains("nfkc")) {
      ASSERT_EQ(kc, spelled(found->second["nfkc"])) << std::hex << uint32_t{c};
    } else {
      ASSERT_TRUE(kc == kd || kc == n) << std::hex << uint32_t{c};
    }
    ASSERT_EQ(normalized(*lower, one), want("lower", one)) << std::hex << uint32_t{c};
  }
}

TEST(UnicodeTables, hangul_composes_and_decomposes) {
  const auto nfc = parse_normalizer({{"type", "NFC"}}, "test"), nfd = parse_normalizer({{"type", "NFD"}}, "test");
  for (char32_t c = 0xAC00; c <= 0xD7A3; ++c) {
    std::string one;
    append_utf8(one, c);
    const std::string apart = normalized(*nfd, one);
    ASSERT_GE(apart.size(), 6u);
    ASSERT_EQ(normalized(*nfc, apart), one);
  }
}

TEST(AlignedText, bytes_keep_their_origin_through_changes) {
  const auto normalizer =
      parse_normalizer(Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},{"type":"NFC"},
                      {"type":"Replace","pattern":{"String":"b"},"content":""},{"type":"Lowercase"}]})"),
                       "test");
  const std::string text = "Ae\u0301bC";
  AlignedText aligned;
  aligned.assign(text, {0, text.size()}, true);
  normalizer->apply(aligned);
  ASSERT_EQ(aligned.text(), "_aéc");
  const auto origin = [&](size_t begin, size_t end) {
    const Span span = aligned.origin({begin, end});
    return text.substr(span.begin, span.size());
  };
  EXPECT_EQ(origin(0, 1), "");
  EXPECT_EQ(origin(1, 2), "A");
  EXPECT_EQ(origin(2, 4), "e\u0301");
  EXPECT_EQ(origin(4, 5), "C");
  EXPECT_EQ(origin(1, 5), text);
}

}  // namespace
}  // namespace cortiq::text
