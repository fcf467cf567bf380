#include "golden.h"

#include <gtest/gtest.h>

#include "base/hash64.h"
#include "codec/layout.h"
#include "codec/quant.h"

namespace cortiq::codec {
namespace {

EncodeOptions options_of(const Json& json, const std::vector<float>& rms) {
  EncodeOptions options;
  options.scale_search = json.value("search", true);
  options.mean_bits = json.value("mean_bits", 4.25);
  options.keep = json.value("keep", -1.0f);
  options.error_diffusion = json.value("error_diffusion", false);
  if (json.value("act_rms", "") == "rms_96.f32.bin") options.column_rms = rms;
  return options;
}

struct Vector {
  std::string name, encoded, decoded;
  const Codec* codec;
  Shape shape;
  std::vector<float> values;
  EncodeOptions options;
  bool encodes;  ///< false: the vector was made by a rounding that is not the format's
  std::string hash;
};

// Every vector but those of q2tp (id 16), which is not part of the specification.
const std::vector<Vector>& vectors() {
  static const std::vector<float> rms = golden_values<float>("rms_96.f32.bin");
  static const std::vector<Vector> all = [] {
    const Json index = golden_json("index.json");
    std::vector<Vector> out;
    for (const Json& one : index["vectors"]) {
      if (one["dtype"] == "q2tp") continue;
      const Codec* codec = find(one["dtype_id"].get<uint8_t>());
      const std::string input = one["input"];
      out.push_back({one["name"], one["encoded"], one["decoded"], codec, shape_of(one["shape"]),
                     golden_values<float>(input + ".f32.bin"), options_of(one["options"], rms),
                     one["options"].value("rounding", "") != "truncate", one["hash64"]});
    }
    return out;
  }();
  return all;
}

TEST(Golden, all_vectors_are_there) {
  EXPECT_EQ(vectors().size(), 92u);
  for (const Vector& v : vectors()) {
    ASSERT_NE(v.codec, nullptr) << v.name;
    EXPECT_EQ(v.values.size(), v.shape.elements()) << v.name;
  }
}

TEST(Golden, encoders_give_the_bytes_of_the_reference_with_any_number_of_threads) {
  for (const size_t threads : {1u, 2u, 3u}) {
    ThreadPool pool(threads);
    for (const Vector& v : vectors()) {
      if (!v.encodes) continue;
      EXPECT_EQ(v.codec->encode(v.values, v.shape, v.options, pool), golden_bytes(v.encoded))
          << v.name << ", " << threads;
    }
  }
}

TEST(Golden, decoders_give_the_bits_of_the_reference) {
  for (const Vector& v : vectors()) {
    const std::vector<uint8_t> payload = golden_bytes(v.encoded);
    EXPECT_EQ(hex64(hash64(Bytes(payload))), v.hash) << v.name;
    ASSERT_NO_THROW(v.codec->validate(Bytes(payload), v.shape)) << v.name;
    std::vector<float> out(v.shape.elements());
    v.codec->decode(Bytes(payload), v.shape, 0, v.shape.rows(), out.data());
    const std::vector<float> want = golden_values<float>(v.decoded);
    ASSERT_EQ(out.size(), want.size()) << v.name;
    EXPECT_EQ(std::memcmp(out.data(), want.data(), 4 * out.size()), 0) << v.name;
  }
}

TEST(Golden, rows_decoded_one_by_one_equal_the_whole) {
  for (const Vector& v : vectors()) {
    const std::vector<uint8_t> payload = golden_bytes(v.encoded);
    const std::vector<float> want = golden_values<float>(v.decoded);
    const uint64_t cols = v.shape.cols();
    std::vector<float> row(cols);
    for (uint64_t r = 0; r < v.shape.rows(); ++r) {
      v.codec->decode(Bytes(payload), v.shape, r, 1, row.data());
      ASSERT_EQ(std::memcmp(row.data(), want.data() + r * cols, 4 * cols), 0) << v.name << ", row " << r;
    }
  }
}

TEST(Golden, values_of_encoders_pass_the_check_of_meaning) {
  for (const Vector& v : vectors()) {
    std::vector<ValueProblem> problems;
    const std::vector<uint8_t> payload = golden_bytes(v.encoded);
    v.codec->check_values(Bytes(payload), v.shape, 10, problems);
    EXPECT_TRUE(problems.empty()) << v.name << ": " << problems[0].message;
  }
}

TEST(Golden, shapes_that_do_not_fit_fall_back_as_measured) {
  ThreadPool pool(1);
  const Json index = golden_json("index.json");
  size_t tried = 0;
  for (const Json& one : index["quant_name_fallbacks"]) {
    if (one["quant_name"] == "q2tp") continue;
    for (const Json& input : index["inputs"]) {
      if (input["name"] != one["input"]) continue;
      const Shape shape = shape_of(input["shape"]);
      const auto values = golden_values<float>(input["file"]);
      const Quant quant = parse_quant(one["quant_name"].get<std::string>());
      Choice chosen = choose(quant, shape);
      EncodeOptions options;
      options.error_diffusion = quant.error_diffusion;
      // The table was measured on the encoders, which the converter's rule for tiny tensors never reaches.
      if (shape.elements() < 32) {
        EXPECT_EQ(chosen.dtype, Dtype::F16);
        continue;
      }
      EXPECT_EQ(name(chosen.dtype), one["dtype"].get<std::string>()) << one.dump();
      EXPECT_EQ(chosen.reason.empty(), chosen.dtype == quant.dtype) << one.dump();
      const auto payload = of(chosen.dtype).encode(values, shape, options, pool);
      EXPECT_EQ(payload.size(), one["nbytes"].get<size_t>()) << one.dump();
      EXPECT_EQ(hex64(hash64(Bytes(payload))), one["hash64"].get<std::string>()) << one.dump();
      ++tried;
    }
  }
  EXPECT_EQ(tried, 22u);
}

}  // namespace
}  // namespace cortiq::codec
