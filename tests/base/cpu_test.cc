#include "base/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/sha256.h"

namespace cortiq {
namespace {

TEST(Cpu, levels_ascend_from_scalar) {
  const auto& levels = available_isas();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), Isa::Scalar);
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_NE(std::find(levels.begin(), levels.end(), active_isa()), levels.end());
  for (const Isa isa : levels) std::cout << "level " << name(isa) << '\n';
}

// The wish is read once in a process, so each is tried in one of its own.
TEST(Cpu, the_environment_chooses_and_unknown_names_are_usage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_code = [](const char* wish) {
    ::setenv("CORTIQ_ISA", wish, 1);
    try {
      ::_exit(active_isa() == Isa::Scalar ? 10 : 11);
    } catch (const Error& error) {
      ::_exit(error.kind() == ErrorKind::Usage ? 12 : 13);
    }
  };
  EXPECT_EXIT(exit_code("scalar"), testing::ExitedWithCode(10), "");
  EXPECT_EXIT(exit_code("avx1024"), testing::ExitedWithCode(12), "");
  EXPECT_EXIT(exit_code("AVX2"), testing::ExitedWithCode(12), "");
#if defined(__x86_64__)
  EXPECT_EXIT(exit_code("neon"), testing::ExitedWithCode(12), "");
#else
  EXPECT_EXIT(exit_code("avx2"), testing::ExitedWithCode(12), "");
#endif
}

TEST(Cpu, sha256_of_pieces_is_that_of_the_whole) {
  EXPECT_EQ(hex(sha256(Bytes(std::string_view("abc")))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(Bytes())), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 hash;
  hash.update(Bytes(std::string_view("a")));
  hash.update(Bytes());
  hash.update(Bytes(std::string_view("bc")));
  EXPECT_EQ(hash.finish(), sha256(Bytes(std::string_view("abc"))));
}

}  // namespace
}  // namespace cortiq
