#include "codec/loops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "base/half.h"

// Every instruction set's loops against the scalar ones, bit for bit, and the scalar ones against the definitions.
namespace cortiq::codec {
namespace {

std::vector<std::pair<std::string, const Loops*>> levels() {
  std::vector<std::pair<std::string, const Loops*>> found{{"scalar", &loops_scalar()}};
#if defined(__x86_64__)
  for (const Isa isa : available_isas()) {
    if (isa == Isa::Avx2) found.emplace_back("avx2", &loops_avx2());
    if (isa == Isa::Avx512) found.emplace_back("avx512", &loops_avx512());
  }
#endif
  return found;
}

// Finite values of every magnitude, with zeros, ties and whole tiles of zeros.
std::vector<float> values(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::uniform_int_distribution<int> exponent(-30, 15);
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) {
    const float scale = std::ldexp(1.0f, seed % 3 == 0 ? exponent(random) : -5);
    v[i] = normal(random) * scale;
    if (i % 17 == 3) v[i] = -0.0f;
    if (i % 23 == 1) v[i] = static_cast<float>(static_cast<int>(i % 15)) * 0.5f * 0x1p-5f;
    if (i / 32 % 7 == 5) v[i] = 0;
  }
  return v;
}

const size_t kSizes[] = {0, 1, 3, 15, 16, 17, 31, 32, 33, 100, 1000};

TEST(Loops, print_which_levels_ran) {
  for (const auto& level : levels()) std::cout << "level " << level.first << '\n';
}

TEST(Loops, elementwise_loops_equal_the_scalar_ones) {
  for (const auto& [name, loops] : levels()) {
    for (const size_t n : kSizes) {
      for (uint32_t seed = 0; seed < 6; ++seed) {
        const auto v = values(n, seed), by = values(n, seed + 1);
        SCOPED_TRACE(name + ", " + std::to_string(n) + ", seed " + std::to_string(seed));
        EXPECT_EQ(loops->largest_magnitude(v.data(), n), loops_scalar().largest_magnitude(v.data(), n));
        std::vector<uint16_t> a(n), b(n);
        EXPECT_EQ(loops->to_half(v.data(), n, a.data()), loops_scalar().to_half(v.data(), n, b.data()));
        EXPECT_EQ(a, b);
        EXPECT_EQ(loops->to_bf16(v.data(), n, a.data()), loops_scalar().to_bf16(v.data(), n, b.data()));
        EXPECT_EQ(a, b);
        std::vector<int8_t> q(n), p(n);
        loops->quantise8(v.data(), n, 0.0003f, -127, q.data());
        loops_scalar().quantise8(v.data(), n, 0.0003f, -127, p.data());
        EXPECT_EQ(q, p);
        std::vector<float> x(n), y(n);
        std::vector<float> divisor(by);
        for (float& d : divisor) d = std::fabs(d) + 1;
        loops->divide(v.data(), divisor.data(), n, x.data());
        loops_scalar().divide(v.data(), divisor.data(), n, y.data());
        EXPECT_EQ(x, y);
        std::vector<double> s(n, 0.5), t(n, 0.5);
        loops->add_squares(v.data(), n, s.data());
        loops_scalar().add_squares(v.data(), n, t.data());
        EXPECT_EQ(s, t);
      }
    }
  }
}

TEST(Loops, halves_equal_their_definition_for_all_patterns) {
  for (const auto& [name, loops] : levels()) {
    std::vector<uint8_t> bytes(1);  // one byte off: planes have no alignment
    for (uint32_t h = 0; h < 65536; ++h) {
      bytes.push_back(static_cast<uint8_t>(h));
      bytes.push_back(static_cast<uint8_t>(h >> 8));
    }
    std::vector<float> wide(65536);
    loops->from_half(bytes.data() + 1, 65536, wide.data());
    for (uint32_t h = 0; h < 65536; ++h) {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[h]), std::bit_cast<uint32_t>(f16_to_f32(static_cast<uint16_t>(h))))
          << name;
    }
    // Around every half: itself, the ties to both sides, and their neighbours.
    std::vector<float> near;
    for (uint32_t h = 0; h < 0x7C00; ++h) {
      const double a = static_cast<double>(f16_to_f32(static_cast<uint16_t>(h)));
      const double b = h == 0x7BFF ? 65536.0 : static_cast<double>(f16_to_f32(static_cast<uint16_t>(h + 1)));
      const float tie = static_cast<float>((a + b) / 2);
      for (const float one : {static_cast<float>(a), tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)}) {
        near.push_back(one);
        near.push_back(-one);
      }
    }
    std::vector<uint16_t> halves(near.size()), bf(near.size());
    loops->to_half(near.data(), near.size(), halves.data());
    loops->to_bf16(near.data(), near.size(), bf.data());
    for (size_t i = 0; i < near.size(); ++i) {
      ASSERT_EQ(halves[i], f32_to_f16(near[i])) << name << ", " << near[i];
      ASSERT_EQ(bf[i], f32_to_bf16(near[i])) << name << ", " << near[i];
    }
  }
}

TEST(Loops, infinite_results_are_reported) {
  for (const auto& [name, loops] : levels()) {
    std::vector<float> v(40, 1.0f);
    std::vector<uint16_t> out(40);
    v[37] = 65519.996f;
    EXPECT_FALSE(loops->to_half(v.data(), 40, out.data())) << name;
    v[37] = -65520.0f;
    EXPECT_TRUE(loops->to_half(v.data(), 40, out.data())) << name;
    EXPECT_FALSE(loops->to_bf16(v.data(), 40, out.data())) << name;
    v[3] = 3.4e38f;
    EXPECT_TRUE(loops->to_bf16(v.data(), 40, out.data())) << name;
  }
}

TEST(Loops, four_bit_loops_equal_the_scalar_ones) {
  for (const auto& [name, loops] : levels()) {
    for (const size_t groups : {1u, 2u, 5u, 16u, 17u, 40u}) {
      for (uint32_t seed = 0; seed < 9; ++seed) {
        SCOPED_TRACE(name + ", " + std::to_string(groups) + ", seed " + std::to_string(seed));
        const auto v = values(32 * groups, seed);
        std::vector<uint8_t> a(18 * groups), b(18 * groups);
        EXPECT_EQ(loops->quantise4(v.data(), groups, a.data(), 18, a.data() + 2, 18),
                  loops_scalar().quantise4(v.data(), groups, b.data(), 18, b.data() + 2, 18));
        EXPECT_EQ(a, b);
      }
    }
  }
}

TEST(Loops, q4tp_tiles_equal_the_scalar_ones) {
  Q4tpRow row;
  row.lo = -9;
  row.step = 0.25f;
  for (int c = 0; c < 32; ++c) {
    row.rung[c] = std::exp2(row.lo + row.step * static_cast<float>(c));
    row.inverse[c] = 1 / row.rung[c];
  }
  for (const auto& [name, loops] : levels()) {
    for (const size_t tiles : {1u, 3u, 16u, 17u, 50u}) {
      for (uint32_t seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(name + ", " + std::to_string(tiles) + ", seed " + std::to_string(seed));
        const auto v = values(32 * tiles, seed);
        std::vector<float> log_scale(tiles + 16);
        for (size_t t = 0; t < tiles; ++t) log_scale[t] = -9.0f + static_cast<float>(t * 7 % 40) * 0.21f;
        row.search = seed % 2 == 0;
        const auto encode = [&](const Loops& with, std::vector<uint16_t>& scale, std::vector<uint8_t>& codes,
                                std::vector<uint8_t>& nibbles) {
          std::vector<float> columns((tiles + 15) / 16 * 16 * 32);
          scale.assign(tiles + 16, 0);
          codes.assign(tiles + 16, 0);
          nibbles.assign(16 * tiles, 0);
          with.q4tp_columns(v.data(), tiles, columns.data(), scale.data());
          with.q4tp_tiles(columns.data(), tiles, scale.data(), log_scale.data(), row, codes.data(), nibbles.data());
          scale.resize(tiles);
          codes.resize(tiles);
        };
        std::vector<uint16_t> scale, scale2;
        std::vector<uint8_t> codes, codes2, nibbles, nibbles2;
        encode(*loops, scale, codes, nibbles);
        encode(loops_scalar(), scale2, codes2, nibbles2);
        EXPECT_EQ(scale, scale2);
        EXPECT_EQ(codes, codes2);
        EXPECT_EQ(nibbles, nibbles2);
      }
    }
  }
}

TEST(Loops, the_first_tile_that_is_not_finite_is_found) {
  constexpr size_t kBlocks = 19, kTiles = kBlocks * 32,
                   kTile = 18;                       // some that are looked at together, some that are not
  std::vector<uint8_t> tiles(kTiles * kTile, 0xFF);  // nibbles that look like infinities
  const auto set = [&](size_t tile, uint16_t half) { std::memcpy(&tiles[tile * kTile], &half, 2); };
  for (size_t t = 0; t < kTiles; ++t) set(t, t % 2 == 0 ? 0x7BFF : 0x83FF);
  for (const auto& [name, run] : levels()) {
    EXPECT_EQ(run->finite_tiles(tiles.data(), kBlocks), kBlocks) << name;
    for (size_t t = 0; t < kTiles; ++t) {
      for (const uint16_t half : {uint16_t{0x7C00}, uint16_t{0xFC00}, uint16_t{0x7C01}, uint16_t{0xFFFF}}) {
        set(t, half);
        EXPECT_EQ(run->finite_tiles(tiles.data(), kBlocks), t / 32) << t;
      }
      set(t, 0);
    }
  }
}

TEST(Loops, signs_spread_in_bit_order) {
  for (const auto& [name, loops] : levels()) {
    for (const uint32_t signs : {0u, 0xFFFFFFFFu, 0x12345678u, 0x80000001u}) {
      float out[32];
      loops->spread_signs(signs, 0.25f, out);
      for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (signs >> i & 1) ? 0.25f : -0.25f) << name;
    }
  }
}

}  // namespace
}  // namespace cortiq::codec
