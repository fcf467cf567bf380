#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/nearest.h"

namespace cortiq {
namespace {

template <class Action>
void expect_bounds(Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Bounds) << error.what();
  }
}

TEST(Bytes, ranges_that_wrap_around_are_outside) {
  const uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const Bytes bytes(data, 8);
  EXPECT_EQ(bytes.slice(8, 0).size(), 0u);
  EXPECT_EQ(bytes.slice(2, 6).size(), 6u);
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{9, 0},
                                       {0, 9},
                                       {8, 1},
                                       {UINT64_MAX, 1},
                                       {1, UINT64_MAX},
                                       {UINT64_MAX, UINT64_MAX},
                                       {4, UINT64_MAX - 3}}) {
    EXPECT_FALSE(bytes.holds(offset, length));
    expect_bounds([&, o = offset, l = length] { bytes.slice(o, l); });
  }
}

TEST(Bytes, values_are_little_endian_at_any_address_and_never_cut) {
  const uint8_t data[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const Bytes bytes(data, 9);
  EXPECT_EQ(bytes.read<uint16_t>(1), 0x0201);
  EXPECT_EQ(bytes.read<uint64_t>(1), 0x0807060504030201u);
  expect_bounds([&] { bytes.read<uint64_t>(2); });
  expect_bounds([&] { bytes.read<uint8_t>(9); });
  expect_bounds([&] { bytes.read<uint32_t>(UINT64_MAX - 1); });
  expect_bounds([] { Bytes().read<uint8_t>(0); });
}

TEST(Bytes, arithmetic_that_does_not_fit_64_bits_is_bounds) {
  EXPECT_EQ(checked_multiply(1ull << 32, (1ull << 32) - 1), 0xFFFFFFFF00000000u);
  expect_bounds([] { checked_multiply(1ull << 32, 1ull << 32); });
  EXPECT_EQ(checked_add(UINT64_MAX, 0), UINT64_MAX);
  expect_bounds([] { checked_add(UINT64_MAX, 1); });
  EXPECT_EQ(align_up(0, 64), 0u);
  EXPECT_EQ(align_up(1, 64), 64u);
  EXPECT_EQ(align_up(64, 64), 64u);
  expect_bounds([] { align_up(UINT64_MAX - 3, 64); });
}

TEST(Bytes, texts_in_errors_cannot_forge_a_second_line) {
  EXPECT_EQ(printable("a\nb\x1b[31m\xff"), "a\\x0ab\\x1b[31m\\xff");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable(std::string(500, 'x'), 10), std::string(10, 'x') + "…");
  EXPECT_EQ(printable("\xC2\x85"), "\\xc2\\x85");  // a control character outside ASCII
}

TEST(Bytes, errors_keep_their_kind_when_a_context_is_added) {
  try {
    with_context("model.cmf", [] { fail(ErrorKind::HashMismatch, "tensor {}", 3); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::HashMismatch);
    EXPECT_STREQ(error.what(), "model.cmf: tensor 3");
  }
}

TEST(Bytes, the_nearest_name_is_the_one_with_fewest_changes) {
  const std::string_view names[] = {"convert", "verify", "tensors"};
  EXPECT_EQ(nearest("vrify", names), "verify");
  EXPECT_EQ(nearest("conver", names), "convert");
  const std::string_view short_ones[] = {"ppl", "run", "info"};
  EXPECT_EQ(nearest("rnu", short_ones, 2), "run");  // two letters changed places: one slip
  EXPECT_EQ(nearest("nifo", short_ones, 2), "info");
  EXPECT_EQ(nearest("", {}), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), names), "convert");
}

}  // namespace
}  // namespace cortiq
