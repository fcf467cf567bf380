#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace cortiq {
namespace {

template <class T>
std::vector<T> golden(const std::string& name) {
  std::ifstream file(std::string(CORTIQ_TEST_DATA) + "/codec/" + name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

TEST(Half, rounding_of_the_format_equals_the_recorded_values) {
  for (const auto& [name, count] : {std::pair<std::string, size_t>{"f16_special", 49}, {"f16_random", 3800}}) {
    const auto values = golden<float>(name + ".f32.bin");
    const auto reference = golden<uint16_t>(name + ".f16ref.bin"), ieee = golden<uint16_t>(name + ".f16rne.bin");
    const auto back = golden<uint32_t>(name + ".f16ref.dec.f32.bin");
    ASSERT_EQ(values.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(f32_to_f16(values[i]), reference[i]) << name << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(f16_to_f32(reference[i])), back[i]) << name << i;
      if (std::isnan(values[i])) {
        EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16_ieee_saturating(values[i]))));
      } else {
        const bool infinite = (ieee[i] & 0x7FFF) == 0x7C00;
        EXPECT_EQ(f32_to_f16_ieee_saturating(values[i]), infinite ? ieee[i] - 1 : ieee[i]) << name << i;
      }
    }
  }
}

TEST(Half, all_65536_patterns_widen_as_recorded) {
  std::vector<float> wide;
  for (uint32_t h = 0; h < 65536; ++h) wide.push_back(f16_to_f32(static_cast<uint16_t>(h)));
  EXPECT_EQ(hex(sha256(Bytes(reinterpret_cast<const uint8_t*>(wide.data()), 4 * wide.size()))),
            "f4fdd084f85448d28c84f20fabf4022ba938e40b7f382d2727dec6f41ac6267a");
}

TEST(Half, every_pattern_survives_the_way_through_single) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float wide = f16_to_f32(half);
    if (std::isnan(wide)) {
      EXPECT_EQ(f32_to_f16(wide), (half & 0x8000) | 0x7E00);
      continue;
    }
    ASSERT_EQ(f32_to_f16(wide), half);
    ASSERT_TRUE(std::isinf(wide) || f32_to_f16_ieee_saturating(wide) == half) << h;
  }
}

TEST(Half, ties_below_the_smallest_normal_go_away_from_zero_in_files_and_to_even_in_the_cache) {
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0001);
  EXPECT_EQ(f32_to_f16_ieee_saturating(0x1p-25f), 0x0000);
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 0.0f)), 0x0000);
  EXPECT_EQ(f32_to_f16(-0x1p-25f), 0x8001);
  EXPECT_EQ(f32_to_f16(5 * 0x1p-25f), 0x0003);
  EXPECT_EQ(f32_to_f16_ieee_saturating(5 * 0x1p-25f), 0x0002);
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3C00);  // a tie above it: to even
  EXPECT_EQ(f32_to_f16(1e-45f), 0x0000);
}

TEST(Half, the_largest_values_overflow_in_files_and_saturate_in_the_cache) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16_ieee_saturating(65520.0f), 0x7BFF);
  EXPECT_EQ(f32_to_f16_ieee_saturating(-std::numeric_limits<float>::infinity()), 0xFBFF);
}

TEST(Half, bf16_rounds_to_even_and_quiets_nan) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const uint16_t bf = static_cast<uint16_t>(b);
    const float wide = bf16_to_f32(bf);
    ASSERT_EQ(f32_to_bf16(wide), std::isnan(wide) ? bf | 0x40 : bf);
  }
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808000u)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F818000u)), 0x3F82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3F808001u)), 0x3F81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7F800001u)), 0x7FC0);  // a NaN whose upper half looks like infinity
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
}

}  // namespace
}  // namespace cortiq
