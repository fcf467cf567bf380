#include <gtest/gtest.h>

#include <limits>

#include "matrices.h"

// What no payload can hold is refused with its place, before anything is written, whatever the number of threads.
namespace cortiq::codec {
namespace {

const Shape kShape{300, 256};  // several blocks of work

std::string refusal(const Codec& codec, const std::vector<float>& values, ErrorKind kind, size_t threads) {
  ThreadPool pool(threads);
  try {
    codec.encode(values, kShape, {}, pool);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << codec.name() << ": " << error.what();
    return error.what();
  }
  ADD_FAILURE() << codec.name() << " encoded it";
  return "";
}

TEST(Refusal, nan_and_infinity_are_parse_and_the_first_one_is_named) {
  for (const Codec* codec : all()) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(kShape.elements(), 1.0f);
      values[kShape.elements() - 1] = bad;
      values[290 * 256 + 17] = bad;
      values[150 * 256 + 255] = bad;
      for (const size_t threads : {1u, 2u, 3u}) {
        const std::string says = refusal(*codec, values, ErrorKind::Parse, threads);
        EXPECT_EQ(says.find("row 150, column 255 is "), 0u) << codec->name() << ": " << says;
      }
    }
  }
}

struct Limit {
  Dtype dtype;
  float fits, overflows;
};

// A value of its dtype, or one whose group has a scale, that rounds beyond the largest half (decisions 14).
TEST(Refusal, values_and_scales_beyond_half_precision_are_bounds) {
  const Limit limits[] = {
      {Dtype::F16, 65519.996f, 65520.0f},
      {Dtype::BF16, 3.38e38f, 3.4e38f},
      {Dtype::U8, 255, 256},
      {Dtype::Q8Row, 65519.0f * 127, 65521.0f * 127},
      {Dtype::Q4Block, 65519.0f * 7, 65521.0f * 7},
      {Dtype::Q4Tiled, 65519.0f * 7, 65521.0f * 7},
      {Dtype::Q4tp, 65519.0f * 7, 65521.0f * 7},
      {Dtype::Q8TwoField, 65519.0f * 17, 65521.0f * 17.4f},  // one of 300: a mean square of 1/300
      {Dtype::Vbit, 65519.0f * 127, 65521.0f * 127},
      {Dtype::VbitRo, 65519.0f * 127, 65521.0f * 127},
      {Dtype::Q1, 65519.0f * 32, 65521.0f * 32},
      {Dtype::Q1s, 65519.0f, 65521.0f},
      {Dtype::Q1t, 32700.0f * 32, 32800.0f * 32},  // the row's correction doubles the mean of one value and zeros
  };
  for (const Limit& limit : limits) {
    for (const size_t threads : {1u, 3u}) {
      ThreadPool pool(threads);
      std::vector<float> values(kShape.elements(), 0.0f);
      values[170 * 256 + 33] = limit.fits;
      EXPECT_NO_THROW(of(limit.dtype).encode(values, kShape, {}, pool)) << name(limit.dtype);
      values[170 * 256 + 33] = limit.overflows;
      const std::string says = refusal(of(limit.dtype), values, ErrorKind::Bounds, threads);
      const char* place = limit.dtype == Dtype::Q8TwoField ? "column 33 " : "row 170, column ";
      EXPECT_NE(says.find(place), std::string::npos) << name(limit.dtype) << ": " << says;
    }
  }
}

TEST(Refusal, u8_holds_whole_numbers_only) {
  std::vector<float> values(kShape.elements(), 3.0f);
  values[5] = 2.5f;
  EXPECT_NE(refusal(of(Dtype::U8), values, ErrorKind::Bounds, 1).find("row 0, column 5"), std::string::npos);
  values[5] = -1;
  refusal(of(Dtype::U8), values, ErrorKind::Bounds, 1);
}

TEST(Refusal, a_shape_and_values_that_disagree_are_parse) {
  ThreadPool pool(1);
  const std::vector<float> values(31);
  for (const Codec* codec : all()) {
    try {
      codec->encode(values, {1, 32}, {}, pool);
      ADD_FAILURE() << codec->name();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Parse);
    }
  }
}

TEST(Refusal, activation_statistics_of_another_width_are_usage) {
  ThreadPool pool(1);
  EncodeOptions options;
  for (const std::vector<float>& rms :
       {std::vector<float>(255, 1.0f), std::vector<float>(256, -1.0f), std::vector<float>(256, INFINITY)}) {
    options.column_rms = rms;
    try {
      of(Dtype::Q1t).encode(std::vector<float>(kShape.elements()), kShape, options, pool);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
    }
  }
}

// facts §5, failures 34: groups of zeros and groups whose scale is below the floor decode to exact zeros.
TEST(Refusal, zeros_and_tiny_values_never_divide_by_zero) {
  ThreadPool pool(1);
  for (const Codec* codec : all()) {
    if (codec->dtype() == Dtype::U8 || codec->dtype() == Dtype::F32 || codec->dtype() == Dtype::BF16) continue;
    const bool binary = codec->dtype() == Dtype::Q1 || codec->dtype() == Dtype::Q1s;  // they have no zero
    for (const float tiny : {0.0f, -0.0f, 1e-40f, 1e-20f}) {
      EncodeOptions options;
      options.keep = 0;
      const std::vector<float> values(kShape.elements(), tiny);
      for (const float v : decoded(*codec, codec->encode(values, kShape, options, pool), kShape)) {
        ASSERT_LE(std::fabs(v), binary ? 0x1p-14f : 0.0f) << codec->name() << ", " << tiny;
      }
    }
  }
}

}  // namespace
}  // namespace cortiq::codec
