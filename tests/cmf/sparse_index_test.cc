// The deprecated index (§7): read, held against its section, never trusted.
#include "cmf/sparse_index.h"

#include <gtest/gtest.h>

#include "cmf/sample_file.h"

namespace cortiq::cmf {
namespace {

std::string words(std::initializer_list<uint32_t> values) {
  std::string out;
  for (const uint32_t value : values) out.append(reinterpret_cast<const char*>(&value), 4);
  return out;
}

std::string kind_of(const std::string& section) {
  try {
    parse_sparse_index({reinterpret_cast<const uint8_t*>(section.data()), section.size()}, "m.cmf");
  } catch (const Error& error) {
    return std::string(name(error.kind()));
  }
  return "ok";
}

TEST(SparseIndex, whatever_reaches_beyond_the_section_is_a_parse_error) {
  EXPECT_EQ(kind_of(words({0, 0})), "ok");
  EXPECT_EQ(kind_of(words({1, 0, 7, 1, 1, 1}) + std::string("\x03\x00\x02", 3)),
            "ok");  // the last padding may be absent
  EXPECT_EQ(kind_of("\1\0"), "Parse");
  EXPECT_EQ(kind_of(words({0})), "Parse");
  EXPECT_EQ(kind_of(words({0xFFFFFFFF, 0})), "Parse");
  EXPECT_EQ(kind_of(words({1, 0, 0, 0, 1, 0})), "Parse");
  EXPECT_EQ(kind_of(words({1, 0, 0, 0, 0, 0xFFFFFFFF})), "Parse");
  EXPECT_EQ(kind_of(words({1, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF})), "Parse");
  EXPECT_EQ(kind_of(words({2, 0, 0, 0, 0, 4, 0x01010101, 0, 0, 0})), "Parse");
}

}  // namespace
}  // namespace cortiq::cmf
