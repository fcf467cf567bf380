#include <gtest/gtest.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "text/recorded.h"

// Every id and every decoded text of the recordings.
namespace cortiq::text {
namespace {

namespace fs = recorded::fs;

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string out;
  for (const uint32_t id : ids) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(valid_utf8(part)) << "a part ends inside a character";
    out += part;
  }
  return out + decoder.flush();
}

void expect_pieces(const Tokenizer& tokenizer, const recorded::Row& row) {
  const std::vector<Piece> pieces = tokenizer.encode_pieces(row.text, true);
  ASSERT_EQ(pieces.size(), row.special.size()) << row.text;
  for (size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_EQ(pieces[i].id, row.special[i]) << row.text;
    ASSERT_LE(pieces[i].begin, pieces[i].end) << row.text;
    ASSERT_LE(pieces[i].end, row.text.size()) << row.text;
  }
}

void check(const fs::path& folder) {
  const auto tokenizer = recorded::load(folder);
  for (const recorded::Row& row : recorded::rows(folder)) {
    if (row.fails) {
      EXPECT_THROW(tokenizer->encode(row.text, false), Error) << row.text;
      continue;
    }
    ASSERT_EQ(tokenizer->encode(row.text, false), row.ids) << row.text;
    ASSERT_EQ(tokenizer->encode(row.text, true), row.special) << row.text;
    ASSERT_EQ(tokenizer->decode(row.ids, false), row.decoded) << row.text;
    ASSERT_EQ(tokenizer->decode(row.ids, true), row.decoded_skipped) << row.text;
    ASSERT_EQ(tokenizer->decode(row.special, false), row.special_decoded) << row.text;
    ASSERT_EQ(tokenizer->decode(row.special, true), row.special_skipped) << row.text;
    ASSERT_EQ(streamed(tokenizer, row.special, false), row.special_decoded) << row.text;
    ASSERT_EQ(streamed(tokenizer, row.special, true), row.special_skipped) << row.text;
    expect_pieces(*tokenizer, row);
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class Recorded : public testing::TestWithParam<std::string> {};
TEST_P(Recorded, ids_and_texts_equal_the_genuine_library) { check(recorded::own_folder() / GetParam()); }
INSTANTIATE_TEST_SUITE_P(Tokenizers, Recorded, testing::ValuesIn(recorded::folders_in(recorded::own_folder())),
                         test_name);

TEST(Recorded, there_are_recordings) { EXPECT_GE(recorded::folders_in(recorded::own_folder()).size(), 100u); }

// Those whose licences keep them out of this repository (llama, gemma, …).
TEST(RecordedElsewhere, ids_and_texts_equal_the_genuine_library) {
  const fs::path root = recorded::shared_folder() / "models/tokenizers";
  const auto own = recorded::folders_in(recorded::own_folder());
  size_t checked = 0;
  for (const std::string& name : recorded::folders_in(root)) {
    if (std::find(own.begin(), own.end(), name) != own.end()) continue;
    SCOPED_TRACE(name);
    check(root / name);
    ++checked;
  }
  if (checked == 0) GTEST_SKIP() << "the tokenizers that may not be copied here are not beside this checkout: " << root;
}

TEST(RecordedElsewhere, whole_files_give_the_recorded_ids) {
  const fs::path shared = recorded::shared_folder(), corpora = shared / "models/corpora";
  if (!fs::exists(corpora / "expected_counts.json"))
    GTEST_SKIP() << "no text samples beside this checkout: " << corpora;
  const Json facts = Json::parse(recorded::read(corpora / "expected_counts.json"));
  for (const auto& [name, files] : facts["tokenizers"].items()) {
    fs::path folder = shared / "models/tokenizers" / name;
    if (name == "stories260k") folder = shared / "models/trained" / name;
    if (!fs::exists(folder)) continue;
    SCOPED_TRACE(name);
    const auto tokenizer = recorded::load(folder);
    for (const auto& [file, wanted] : files.items()) {
      const std::string text = recorded::read(corpora / file);
      const Ids ids = tokenizer->encode(text, false);
      EXPECT_EQ(ids.size(), wanted["tokens"].get<size_t>()) << file;
      const Bytes bytes(reinterpret_cast<const uint8_t*>(ids.data()), ids.size() * sizeof(uint32_t));
      EXPECT_EQ(hex(sha256(bytes)), wanted["ids_sha256"].get<std::string>()) << file;
      EXPECT_EQ(tokenizer->decode(ids, false) == text, wanted["decode_equals_text"].get<bool>()) << file;
    }
  }
}

}  // namespace
}  // namespace cortiq::text
