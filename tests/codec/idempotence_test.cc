#include <gtest/gtest.h>

#include "matrices.h"

// encode(decode(x)) = x for what the encoder wrote, where the definition gives it: compaction and requantising to the
// same dtype then change nothing.
//
// It holds when a group's largest code always comes back as the largest code: f32, f16, bf16, u8 (values as they are);
// q8_row, q4_block, q4_tiled (the largest code is 127 or 7 unless the scale is at its floor, where it stays); q1 and
// q1p (the mean of ±s is s; nothing is left to diffuse).
//
// It cannot hold for
//   q8_2f         the column field is the root mean square of the values, and rounding moves it;
//   q4tp          a rung is not a half: S(7·rung / 7) rounds it, and the ladder is chosen anew from what comes out;
//   q1t           the mean magnitude counts the zeros that the codes made;
//   vbit, vbit_ro as a whole, as the rounded scales move the rows' amplitudes over the border of a width; a row that
//                 keeps its width keeps its codes (tested);
//   q1s           if outliers and the rest of a group meet: when every weight that was kept stays larger than every
//                 scale, it holds (tested).
namespace cortiq::codec {
namespace {

const Shape kShape{64, 256};

void expect_idempotent(const Codec& codec, const std::vector<float>& values, const EncodeOptions& options) {
  ThreadPool pool(1);
  const auto once = codec.encode(values, kShape, options, pool);
  EXPECT_EQ(codec.encode(decoded(codec, once, kShape), kShape, options, pool), once) << codec.name();
}

std::vector<float> with_tiny_rows() {
  std::vector<float> values = outlier_heavy(kShape);
  for (size_t i = 0; i < 256; ++i) {
    values[i] *= 1e-4f;
    values[256 + i] = 0;
  }
  return values;
}

TEST(Idempotence, holds_where_the_definition_gives_it) {
  const Dtype dtypes[] = {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::Q8Row, Dtype::Q4Block, Dtype::Q4Tiled, Dtype::Q1};
  for (const Dtype dtype : dtypes) {
    expect_idempotent(of(dtype), gaussian(kShape), {});
    expect_idempotent(of(dtype), with_tiny_rows(), {});
  }
  EncodeOptions diffused;
  diffused.error_diffusion = true;
  expect_idempotent(of(Dtype::Q1), gaussian(kShape), diffused);
  std::vector<float> bytes(kShape.elements());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<float>(i % 256);
  expect_idempotent(of(Dtype::U8), bytes, {});
}

TEST(Idempotence, of_vbit_holds_row_by_row_while_the_width_stays) {
  ThreadPool pool(1);
  const auto once = of(Dtype::VbitRo).encode(gaussian(kShape), kShape, {}, pool);
  const auto twice = of(Dtype::VbitRo).encode(decoded(of(Dtype::VbitRo), once, kShape), kShape, {}, pool);
  const auto first = decoded(of(Dtype::VbitRo), once, kShape), second = decoded(of(Dtype::VbitRo), twice, kShape);
  size_t kept = 0;
  for (size_t r = 0; r < 64; ++r) {
    if (once[r] != twice[r]) continue;
    ++kept;
    for (size_t c = 0; c < 256; ++c) ASSERT_EQ(first[r * 256 + c], second[r * 256 + c]) << r;
  }
  EXPECT_GT(kept, 50u);
}

TEST(Idempotence, of_q1s_holds_while_outliers_stay_apart) {
  std::vector<float> values = gaussian(kShape);
  for (size_t i = 0; i < values.size(); i += 200) values[i] = values[i] < 0 ? -3.0f - values[i] : 3.0f + values[i];
  EncodeOptions options;
  options.keep = 0.005f;
  expect_idempotent(of(Dtype::Q1s), values, options);
}

}  // namespace
}  // namespace cortiq::codec
