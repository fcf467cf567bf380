#include "codec/exp2_log2.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>

#include "codec/layout.h"
#include "golden.h"

namespace cortiq::codec {
namespace {

std::map<uint16_t, uint32_t> listed(const char* function) {
  std::map<uint16_t, uint32_t> list;
  const Json json = golden_json("exp2f_log2f_glibc.json");
  for (const Json& one : json[function]) {
    list[static_cast<uint16_t>(std::stoul(one["half"].get<std::string>(), nullptr, 16))] =
        static_cast<uint32_t>(std::stoul(one["glibc_bits"].get<std::string>(), nullptr, 16));
  }
  return list;
}

TEST(Exp2Log2, exponential_of_every_half_is_the_formats) {
  const auto exceptions = listed("exp2f");
  ASSERT_EQ(exceptions.size(), 42u);
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    if ((half & 0x7C00) == 0x7C00) continue;
    uint32_t want = std::bit_cast<uint32_t>(static_cast<float>(std::exp2(static_cast<double>(f16_to_f32(half)))));
    if (const auto found = exceptions.find(half); found != exceptions.end()) want = found->second;
    ASSERT_EQ(std::bit_cast<uint32_t>(exp2_of_half(half)), want) << half;
  }
  EXPECT_EQ(exp2_of_half(0x7C00), std::bit_cast<float>(0x7F800000));
  EXPECT_EQ(exp2_of_half(0xFC00), 0.0f);
  EXPECT_TRUE(std::isnan(exp2_of_half(0x7E00)));
}

TEST(Exp2Log2, logarithm_of_every_positive_half_is_the_formats) {
  const auto exceptions = listed("log2f");
  ASSERT_EQ(exceptions.size(), 21u);
  for (uint16_t half = 1; half < 0x7C00; ++half) {
    uint32_t want = std::bit_cast<uint32_t>(static_cast<float>(std::log2(static_cast<double>(f16_to_f32(half)))));
    if (const auto found = exceptions.find(half); found != exceptions.end()) want = found->second;
    ASSERT_EQ(std::bit_cast<uint32_t>(log2_of_halves()[half]), want) << half;
  }
}

TEST(Exp2Log2, logarithm_of_singles_is_rounded_correctly) {
  for (uint32_t bits = 0x2B8CBCCC; bits < 0x7F000000; bits += 0x10473) {
    const float x = std::bit_cast<float>(bits);
    ASSERT_EQ(log2_of(x), static_cast<float>(std::log2(static_cast<double>(x)))) << bits;
  }
}

TEST(Exp2Log2, the_ladder_is_a_recurrence_from_the_stored_halves) {
  const uint8_t row[4] = {0x00, 0xC8, 0x00, 0x34};  // lo -8, step 0.25
  const Q4tpLadder ladder = q4tp_ladder(row);
  EXPECT_EQ(ladder.first, 0x1p-8f);
  EXPECT_EQ(ladder.ratio, exp2_of_half(0x3400));
}

}  // namespace
}  // namespace cortiq::codec
