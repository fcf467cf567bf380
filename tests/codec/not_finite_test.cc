#include <gtest/gtest.h>

#include <cstring>

#include "codec/codec.h"

namespace cortiq::codec {
namespace {

// verify looks at values in blocks: one that is not finite must be found wherever in a block it lies, and no other.
TEST(NotFinite, found_at_every_position_and_only_there) {
  struct One {
    Dtype dtype;
    size_t bytes;
    uint32_t largest, infinity, nan;
  };
  for (const One& one : {One{Dtype::F32, 4, 0xFF7FFFFF, 0x7F800000, 0xFFC00001},
                         One{Dtype::F16, 2, 0xFBFF, 0x7C00, 0xFE01}, One{Dtype::BF16, 2, 0xFF7F, 0x7F80, 0xFFC1}}) {
    for (const uint32_t count : {1u, 63u, 64u, 65u, 200u}) {
      std::vector<uint8_t> payload(count * one.bytes);
      for (size_t i = 0; i < count; ++i) std::memcpy(payload.data() + i * one.bytes, &one.largest, one.bytes);
      const auto found = [&] {
        std::vector<ValueProblem> problems;
        of(one.dtype).check_values(Bytes(payload.data(), payload.size()), {count, 1}, 4, problems);
        return problems;
      };
      EXPECT_TRUE(found().empty());
      for (size_t at = 0; at < count; ++at) {
        const uint32_t bad = at % 2 ? one.infinity : one.nan;
        std::memcpy(payload.data() + at * one.bytes, &bad, one.bytes);
        const auto problems = found();
        ASSERT_EQ(problems.size(), 1u) << name(one.dtype) << " " << at << " of " << count;
        EXPECT_EQ(problems[0].row, at);
        std::memcpy(payload.data() + at * one.bytes, &one.largest, one.bytes);
      }
      for (size_t i = 0; i < count; ++i) std::memcpy(payload.data() + i * one.bytes, &one.infinity, one.bytes);
      EXPECT_EQ(found().size(), std::min<size_t>(4, count));
    }
  }
}

}  // namespace
}  // namespace cortiq::codec
