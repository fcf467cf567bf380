#include "base/hash64.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/hash64_loops.h"
#include "base/json.h"

namespace cortiq {
namespace {

std::vector<uint8_t> patterned(const std::string& pattern, size_t length) {
  std::vector<uint8_t> bytes(length);
  for (size_t i = 0; i < length; ++i) {
    if (pattern == "zeros") bytes[i] = 0;
    if (pattern == "ff") bytes[i] = 0xFF;
    if (pattern == "i mod 256") bytes[i] = static_cast<uint8_t>(i);
    if (pattern == "i*31+7 mod 256") bytes[i] = static_cast<uint8_t>(i * 31 + 7);
  }
  return bytes;
}

TEST(Hash64, equals_the_recorded_values) {
  std::ifstream file(std::string(CORTIQ_TEST_DATA) + "/codec/hash64.json");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const Json json = parse_json(text, "hash64.json");
  size_t tried = 0;
  for (const Json& one : json["vectors"]) {
    std::vector<uint8_t> bytes;
    if (one.contains("pattern")) {
      bytes = patterned(one["pattern"], one["length"].get<size_t>());
    } else {
      const std::string content = one["utf8"];
      bytes.assign(content.begin(), content.end());
    }
    ASSERT_EQ(bytes.size(), one["length"].get<size_t>());
    EXPECT_EQ(hex64(hash64(Bytes(bytes))), one["hash64"].get<std::string>()) << one.dump();
    ++tried;
  }
  EXPECT_EQ(tried, 95u);
}

TEST(Hash64, pieces_of_any_size_give_the_hash_of_the_whole) {
  std::mt19937 random(1);
  std::vector<uint8_t> bytes(1000);
  for (auto& b : bytes) b = static_cast<uint8_t>(random());
  for (size_t length = 0; length < bytes.size(); length += 13) {
    const Bytes whole(bytes.data(), length);
    Hash64 hash;
    for (size_t at = 0; at < length;) {
      const size_t take = std::min<size_t>(length - at, random() % 20);
      hash.update(whole.slice(at, take));
      at += take;
    }
    EXPECT_EQ(hash.finish(), hash64(whole)) << length;
  }
}

std::vector<std::pair<std::string, decltype(&hash64_fold_scalar)>> folds() {
  std::vector<std::pair<std::string, decltype(&hash64_fold_scalar)>> found;
#if defined(__x86_64__)
  for (const Isa isa : available_isas()) {
    if (isa == Isa::Avx2) found.emplace_back("avx2", hash64_fold_avx2);
    if (isa == Isa::Avx512) found.emplace_back("avx512", hash64_fold_avx512);
  }
#endif
  return found;
}

TEST(Hash64, every_instruction_set_folds_like_the_definition_at_every_length_and_address) {
  std::mt19937_64 random(2);
  std::vector<uint8_t> bytes(8 * 300 + 16);
  for (auto& b : bytes) b = static_cast<uint8_t>(random());
  for (const auto& [name, fold] : folds()) {
    std::cout << "level " << name << '\n';
    for (uint64_t count = 0; count < 300; ++count) {
      const uint64_t offset = count % 9;
      for (const uint64_t first : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40, UINT64_MAX - 7}) {
        // A copy of the exact size, so that a read beyond it is seen by the address sanitizer.
        const std::vector<uint8_t> words(bytes.begin() + static_cast<ptrdiff_t>(offset),
                                         bytes.begin() + static_cast<ptrdiff_t>(offset + 8 * count));
        ASSERT_EQ(fold(words.data(), count, first), hash64_fold_scalar(words.data(), count, first)) << name << count;
        ASSERT_EQ(fold(bytes.data() + offset, count, first), hash64_fold_scalar(words.data(), count, first)) << name;
      }
    }
  }
}

TEST(Hash64, folds_of_parts_combine) {
  const auto bytes = patterned("i*31+7 mod 256", 8 * 1000);
  const uint64_t whole = hash64_fold(bytes.data(), 1000, 0);
  EXPECT_EQ(hash64_fold(bytes.data(), 333, 0) ^ hash64_fold(bytes.data() + 8 * 333, 667, 333), whole);
}

TEST(Hash64, hexadecimal_is_sixteen_digits_or_parse) {
  EXPECT_EQ(hex64(0x1234), "0000000000001234");
  EXPECT_EQ(parse_hex64("00000000000000fF", "x"), 255u);
  for (const char* bad : {"", "123", "00000000000000fg", "0x00000000000000", "00000000000000000", "+000000000000000"}) {
    try {
      parse_hex64(bad, "section_hashes.masks");
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Parse);
      EXPECT_NE(std::string(error.what()).find("section_hashes.masks"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace cortiq
