#include <gtest/gtest.h>

#include <functional>

#include "codec/layout.h"
#include "matrices.h"

namespace cortiq::codec {
namespace {

using Payload = std::vector<uint8_t>;

ErrorKind refusal(const std::function<void()>& action, std::string* sentence = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (sentence != nullptr) *sentence = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was refused";
  return ErrorKind::Cancelled;
}

void put16(Payload& p, uint64_t at, uint16_t value) { std::memcpy(p.data() + at, &value, 2); }
void put32(Payload& p, uint64_t at, uint32_t value) { std::memcpy(p.data() + at, &value, 4); }

const Shape kShape{4, 64};  // two groups a row

Payload encoded(Dtype dtype, const Shape& shape = kShape, float keep = 0.05f) {
  ThreadPool pool(1);
  EncodeOptions options;
  options.keep = keep;
  return of(dtype).encode(gaussian(shape), shape, options, pool);
}

TEST(Validation, sizes_are_the_formulas_of_the_format) {
  const auto size = [](Dtype dtype, const Shape& shape) { return of(dtype).nbytes(shape).value(); };
  EXPECT_EQ(size(Dtype::F32, {3, 5}), 60u);
  EXPECT_EQ(size(Dtype::F16, {3, 5}), 30u);
  EXPECT_EQ(size(Dtype::BF16, {}), 2u);
  EXPECT_EQ(size(Dtype::U8, {7}), 7u);
  EXPECT_EQ(size(Dtype::Q8Row, {3, 5}), 15u + 6);
  EXPECT_EQ(size(Dtype::Q8TwoField, {3, 5}), 15u + 6 + 10);
  EXPECT_EQ(size(Dtype::Q4Block, {3, 11}), 36u);
  EXPECT_EQ(size(Dtype::Q4Tiled, {3, 64}), 108u);
  EXPECT_EQ(size(Dtype::Q1, {3, 64}), 36u);
  EXPECT_EQ(size(Dtype::Q4tp, {3, 96}), 3u * (48 + 4 + 2));
  for (const Dtype own : {Dtype::Vbit, Dtype::VbitRo, Dtype::Q1s, Dtype::Q1t}) EXPECT_FALSE(of(own).nbytes(kShape));
}

TEST(Validation, payload_one_byte_short_or_long_is_bounds) {
  for (const Codec* codec : all()) {
    Payload payload = codec->dtype() == Dtype::U8 ? Payload(256) : encoded(codec->dtype());
    EXPECT_NO_THROW(codec->validate(Bytes(payload), kShape)) << codec->name();
    payload.push_back(0);
    EXPECT_EQ(refusal([&] { codec->validate(Bytes(payload), kShape); }), ErrorKind::Bounds) << codec->name();
    payload.pop_back();
    payload.pop_back();
    EXPECT_EQ(refusal([&] { codec->validate(Bytes(payload), kShape); }), ErrorKind::Bounds) << codec->name();
  }
}

TEST(Validation, every_truncation_of_a_payload_is_bounds) {
  for (const Dtype own : {Dtype::Vbit, Dtype::VbitRo, Dtype::Q1s, Dtype::Q1t}) {
    const Payload whole = encoded(own);
    for (size_t size = 0; size < whole.size(); ++size) {
      const Payload cut(whole.begin(),
                        whole.begin() + static_cast<ptrdiff_t>(size));  // exactly as long: ASan sees a read beyond
      EXPECT_EQ(refusal([&] { of(own).validate(Bytes(cut), kShape); }), ErrorKind::Bounds) << size;
    }
  }
}

TEST(Validation, shapes_that_a_layout_is_not_defined_for_are_parse) {
  const Dtype matrices[] = {Dtype::Q8Row,  Dtype::Q8TwoField, Dtype::Q4Tiled, Dtype::Q4tp, Dtype::Vbit,
                            Dtype::VbitRo, Dtype::Q1,         Dtype::Q1s,     Dtype::Q1t};
  ThreadPool pool(1);
  for (const Dtype dtype : matrices) {
    for (const Shape& shape : {Shape{}, Shape{64}, Shape{2, 2, 32}}) {
      EXPECT_TRUE(of(dtype).refuses(shape)) << name(dtype) << shape.text();
      EXPECT_EQ(refusal([&] { of(dtype).validate(Bytes(), shape); }), ErrorKind::Parse);
      const std::vector<float> values(shape.elements());
      EXPECT_EQ(refusal([&] { of(dtype).encode(values, shape, {}, pool); }), ErrorKind::Parse);
    }
    const bool grouped = dtype != Dtype::Q8Row && dtype != Dtype::Q8TwoField;
    EXPECT_EQ(of(dtype).refuses({4, 33}).has_value(), grouped) << name(dtype);
    EXPECT_FALSE(of(dtype).refuses({4, 96})) << name(dtype);
  }
  EXPECT_TRUE(of(Dtype::Q1t).refuses({2, 65568}));
  EXPECT_FALSE(of(Dtype::Q1t).refuses({2, 65536}));
  EXPECT_TRUE(of(Dtype::Q1s).refuses({65537, 65536}));
  for (const Dtype any : {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::U8, Dtype::Q4Block}) {
    for (const Shape& shape : {Shape{}, Shape{45}, Shape{2, 3, 4, 5, 6, 7}}) EXPECT_FALSE(of(any).refuses(shape));
  }
}

TEST(Validation, products_beyond_64_bits_are_bounds_not_small_numbers) {
  const Shape huge{UINT32_MAX, UINT32_MAX, UINT32_MAX};
  EXPECT_EQ(refusal([&] { of(Dtype::F32).validate(Bytes(), huge); }), ErrorKind::Bounds);
  const Shape matrix{UINT32_MAX, UINT32_MAX - 31};
  for (const Codec* codec : all()) {
    if (codec->refuses(matrix)) continue;
    EXPECT_EQ(refusal([&] { codec->validate(Bytes(), matrix); }), ErrorKind::Bounds) << codec->name();
  }
}

TEST(Validation, dimensions_of_zero_have_payloads_without_values) {
  ThreadPool pool(2);
  for (const Codec* codec : all()) {
    for (const Shape& shape : {Shape{0, 32}, Shape{3, 0}, Shape{0, 0}}) {
      const Payload payload = codec->encode({}, shape, {}, pool);
      EXPECT_NO_THROW(codec->validate(Bytes(payload), shape)) << codec->name() << shape.text();
      float untouched = 7;
      codec->decode(Bytes(payload), shape, 0, shape.rows(), &untouched);
      EXPECT_EQ(untouched, 7) << codec->name();
      std::vector<ValueProblem> problems;
      codec->check_values(Bytes(payload), shape, 5, problems);
      EXPECT_TRUE(problems.empty()) << codec->name() << problems[0].message;
    }
  }
}

TEST(Validation, widths_that_do_not_exist_are_bounds) {
  for (const Dtype dtype : {Dtype::Vbit, Dtype::VbitRo}) {
    for (const int bits : {0, 1, 2, 7, 9, 255}) {
      Payload payload = encoded(dtype);
      payload[2] = static_cast<uint8_t>(bits);
      std::string sentence;
      EXPECT_EQ(refusal([&] { of(dtype).validate(Bytes(payload), kShape); }, &sentence), ErrorKind::Bounds);
      EXPECT_NE(sentence.find("row 2 has"), std::string::npos) << sentence;
    }
    Payload payload = encoded(dtype);
    payload[1] = payload[1] == 8 ? 3 : 8;  // a width that exists but changes the length
    EXPECT_EQ(refusal([&] { of(dtype).validate(Bytes(payload), kShape); }), ErrorKind::Bounds);
  }
}

TEST(Validation, vbit_ro_offsets_that_disagree_with_the_widths_are_bounds) {
  const uint64_t offsets = 4 + 2 * 4 * 2;
  for (const uint64_t row : {0u, 1u, 4u}) {
    Payload payload = encoded(Dtype::VbitRo);
    put32(payload, offsets + 4 * row, load32(payload.data() + offsets + 4 * row) + 8);
    EXPECT_EQ(refusal([&] { of(Dtype::VbitRo).validate(Bytes(payload), kShape); }), ErrorKind::Bounds) << row;
  }
}

TEST(Validation, q1s_outliers_outside_or_out_of_order_are_bounds) {
  const uint64_t count_at = 8 * kQ1TileBytes, entries = count_at + 4;
  const Payload good = encoded(Dtype::Q1s);
  ASSERT_GE(load32(good.data() + count_at), 3u);
  const auto broken = [&](const std::function<void(Payload&)>& change) {
    Payload payload = good;
    change(payload);
    return refusal([&] { of(Dtype::Q1s).validate(Bytes(payload), kShape); });
  };
  EXPECT_EQ(broken([&](Payload& p) { put32(p, count_at, load32(p.data() + count_at) + 1); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, count_at, 0xFFFFFFFF); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, count_at, 0); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, p.size() - 6, 256); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, entries + 6, load32(p.data() + entries)); }), ErrorKind::Bounds);
}

TEST(Validation, q1t_row_pointers_and_columns_outside_are_bounds) {
  const uint64_t row_ptr = 8 * kQ1tTileBytes, entries = row_ptr + 4 * 5;
  const Payload good = encoded(Dtype::Q1t, kShape, 0.2f);
  ASSERT_GE(load32(good.data() + row_ptr + 4), 2u) << "the first row needs two outliers";
  const uint32_t all = load32(good.data() + row_ptr + 16);
  const auto broken = [&](const std::function<void(Payload&)>& change) {
    Payload payload = good;
    change(payload);
    return refusal([&] { of(Dtype::Q1t).validate(Bytes(payload), kShape); });
  };
  EXPECT_EQ(broken([&](Payload& p) { put32(p, row_ptr, 1); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, row_ptr + 8, 0); }), ErrorKind::Bounds) << "not monotone";
  EXPECT_EQ(broken([&](Payload& p) { put32(p, row_ptr + 8, all + 1); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, row_ptr + 16, all + 1); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put32(p, row_ptr + 16, 0xFFFFFFFF); }), ErrorKind::Bounds);
  EXPECT_EQ(broken([&](Payload& p) { put16(p, entries + 4, 64); }), ErrorKind::Bounds) << "column outside";
  EXPECT_EQ(broken([&](Payload& p) { put16(p, entries + 4, load16(p.data() + entries)); }), ErrorKind::Bounds)
      << "twice";
}

struct Meaning {
  Dtype dtype;
  uint64_t at;
  uint16_t bits;
  uint64_t row;
  const char* says;
};

TEST(Validation, scales_that_are_not_finite_and_codes_out_of_range_are_found) {
  const Meaning cases[] = {
      {Dtype::F32, 4 * 65 + 2, 0x7F80, 1, "column 1"},
      {Dtype::F16, 2 * 130, 0x7C01, 2, "column 2"},
      {Dtype::BF16, 2 * 130, 0xFF80, 2, "column 2"},
      {Dtype::Q8Row, 256 + 2 * 3, 0x7E00, 3, "row 3"},
      {Dtype::Q8TwoField, 256 + 2, 0x7C00, 1, "row 1"},
      {Dtype::Q8TwoField, 256 + 8 + 2 * 63, 0xFC00, 0, "column 63"},
      {Dtype::Q4Block, 128 + 2 * 5, 0x7C00, 2, "row 2, column 32"},
      {Dtype::Q4Tiled, 18 * 7, 0x7C00, 3, "row 3, group 1"},
      {Dtype::Q4tp, 128 + 4 * 2, 0x7C00, 2, "row 2"},
      {Dtype::Q4tp, 128 + 4 * 2 + 2, 0x7E00, 2, "row 2"},
      {Dtype::Q4tp, 128 + 4 * 2 + 2, 0x5000, 2, "leaves single precision"},
      {Dtype::Vbit, 4 + 2 * 7, 0x7C00, 3, "row 3, group 1"},
      {Dtype::VbitRo, 4 + 2 * 7, 0x7C00, 3, "row 3, group 1"},
      {Dtype::Q1, 6 * 2, 0x7C00, 1, "row 1, group 0"},
      {Dtype::Q1s, 6 * 2, 0x7C00, 1, "row 1, group 0"},
      {Dtype::Q1s, 48 + 4 + 4, 0x7C00, 0, "outlier"},
      {Dtype::Q1t, 9 * 2, 0x7C00, 1, "row 1, group 0"},
      {Dtype::Q1t, 9 * 2 + 2, 0x00F3, 1, "byte 0 of the codes is 243"},
      {Dtype::Q1t, 9 * 2 + 7, 0x0900, 1, "byte 6 of the codes is 9"},
      {Dtype::Q1t, 72 + 20 + 2, 0x7E00, 0, "outlier"},
  };
  for (const Meaning& one : cases) {
    Payload payload = encoded(one.dtype);
    put16(payload, one.at, one.bits);
    std::vector<ValueProblem> problems;
    ASSERT_NO_THROW(of(one.dtype).validate(Bytes(payload), kShape)) << name(one.dtype);
    of(one.dtype).check_values(Bytes(payload), kShape, 10, problems);
    ASSERT_EQ(problems.size(), 1u) << name(one.dtype) << " at " << one.at;
    const bool first_outlier = one.dtype == Dtype::Q1s && one.at >= 48;  // in whichever row it is
    EXPECT_TRUE(first_outlier || problems[0].row == one.row) << problems[0].message;
    EXPECT_NE(problems[0].message.find(one.says), std::string::npos) << problems[0].message;
  }
}

TEST(Validation, no_more_problems_are_listed_than_wanted) {
  for (const Codec* codec : all()) {
    if (codec->dtype() == Dtype::U8) continue;
    const Payload payload = encoded(codec->dtype());
    std::vector<ValueProblem> problems(3);
    Payload ruined = payload;
    if (codec->nbytes(kShape)) std::fill(ruined.begin(), ruined.end(), uint8_t{0xFF});
    codec->check_values(Bytes(ruined), kShape, 3, problems);
    EXPECT_EQ(problems.size(), 3u) << codec->name();
  }
}

}  // namespace
}  // namespace cortiq::codec
