#include <gtest/gtest.h>

#include "matrices.h"

// What each codec loses, so that a change of an encoder that costs quality is seen. The bounds are the measured errors
// and a few percent.
namespace cortiq::codec {
namespace {

const Shape kShape{256, 512};

struct Case {
  const char* name;
  Dtype dtype;
  EncodeOptions options;
  double gaussian, outliers;
};

EncodeOptions with_keep(float keep) {
  EncodeOptions options;
  options.keep = keep;
  return options;
}
EncodeOptions diffused() {
  EncodeOptions options;
  options.error_diffusion = true;
  return options;
}
EncodeOptions without_search() {
  EncodeOptions options;
  options.scale_search = false;
  return options;
}
EncodeOptions with_mean_bits(double bits) {
  EncodeOptions options;
  options.mean_bits = bits;
  return options;
}

const Case kCases[] = {
    {"f32", Dtype::F32, {}, 0, 0},
    {"f16", Dtype::F16, {}, 0.000215, 0.00026},
    {"bf16", Dtype::BF16, {}, 0.0017, 0.00165},
    {"q8_row", Dtype::Q8Row, {}, 0.0076, 0.045},
    {"q8_2f", Dtype::Q8TwoField, {}, 0.0076, 0.0235},
    {"q4_block", Dtype::Q4Block, {}, 0.099, 0.115},
    {"q4_tiled", Dtype::Q4Tiled, {}, 0.099, 0.115},
    {"q4tp", Dtype::Q4tp, {}, 0.095, 0.115},
    {"q4tp without search", Dtype::Q4tp, without_search(), 0.099, 0.115},
    {"vbit 4.25", Dtype::Vbit, {}, 0.096, 0.0975},
    {"vbit_ro 4.25", Dtype::VbitRo, {}, 0.096, 0.0975},
    {"vbit_ro 6", Dtype::VbitRo, with_mean_bits(6), 0.0225, 0.0415},
    {"q1", Dtype::Q1, {}, 0.605, 0.94},
    {"q1p", Dtype::Q1, diffused(), 0.795, 0.98},
    {"q1s", Dtype::Q1s, {}, 0.75, 0.26},
    {"q1s keep 0.05", Dtype::Q1s, with_keep(0.05f), 0.65, 0.225},
    {"q1t", Dtype::Q1t, {}, 0.44, 0.715},
    {"q1t keep 0.02", Dtype::Q1t, with_keep(0.02f), 0.38, 0.135},
};

double distortion(const Case& one, const std::vector<float>& values) {
  ThreadPool pool(1);
  const Codec& codec = of(one.dtype);
  return relative_rms(values, decoded(codec, codec.encode(values, kShape, one.options, pool), kShape));
}

TEST(Distortion, of_a_gaussian_matrix_stays_within_its_bound) {
  for (const Case& one : kCases) {
    const double error = distortion(one, gaussian(kShape));
    EXPECT_LE(error, one.gaussian) << one.name;
    EXPECT_GE(error, one.gaussian * 0.9) << one.name << ": better than its bound says; tighten the bound";
  }
}

TEST(Distortion, of_a_matrix_with_outliers_stays_within_its_bound) {
  for (const Case& one : kCases) {
    const double error = distortion(one, outlier_heavy(kShape));
    EXPECT_LE(error, one.outliers) << one.name;
    EXPECT_GE(error, one.outliers * 0.9) << one.name << ": better than its bound says; tighten the bound";
  }
}

TEST(Distortion, the_scale_search_of_q4tp_pays) {
  const auto values = gaussian(kShape, 3);
  EXPECT_LT(distortion({"", Dtype::Q4tp, {}, 0, 0}, values),
            distortion({"", Dtype::Q4tp, without_search(), 0, 0}, values));
}

TEST(Distortion, vbit_gives_loud_rows_more_bits_than_quiet_ones) {
  std::vector<float> values = gaussian(kShape);
  for (size_t i = 0; i < 512; ++i) values[i] *= 64;
  ThreadPool pool(1);
  const auto payload = of(Dtype::VbitRo).encode(values, kShape, {}, pool);
  EXPECT_EQ(payload[0], 8);
  EXPECT_LE(payload[1], 5);
  EncodeOptions biased;
  biased.row_bias = -2.5f;
  EXPECT_EQ(of(Dtype::VbitRo).encode(values, kShape, biased, pool)[1], 3);
}

TEST(Distortion, q1t_spends_its_outliers_where_activations_are_large) {
  std::vector<float> rms(512, 1.0f);
  for (size_t c = 0; c < 16; ++c) rms[c] = 100;
  EncodeOptions options = with_keep(0.02f);
  options.column_rms = rms;
  ThreadPool pool(1);
  const auto values = gaussian(kShape);
  const auto plain = decoded(of(Dtype::Q1t), of(Dtype::Q1t).encode(values, kShape, with_keep(0.02f), pool), kShape);
  const auto weighted = decoded(of(Dtype::Q1t), of(Dtype::Q1t).encode(values, kShape, options, pool), kShape);
  double miss_plain = 0, miss_weighted = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double r = static_cast<double>(rms[i % 512]);
    miss_plain += r * r * std::pow(static_cast<double>(values[i] - plain[i]), 2);
    miss_weighted += r * r * std::pow(static_cast<double>(values[i] - weighted[i]), 2);
  }
  EXPECT_LT(miss_weighted, 0.6 * miss_plain);
}

}  // namespace
}  // namespace cortiq::codec
