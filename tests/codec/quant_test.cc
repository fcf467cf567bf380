#include "codec/quant.h"

#include <gtest/gtest.h>

namespace cortiq::codec {
namespace {

TEST(Quant, every_option_and_alias_is_known_in_any_case) {
  const std::pair<const char*, Dtype> names[] = {
      {"f32", Dtype::F32},         {"bf16", Dtype::BF16},        {"f16", Dtype::F16},
      {"FP16", Dtype::F16},        {"q8", Dtype::Q8Row},         {"Q8_ROW", Dtype::Q8Row},
      {"q8row", Dtype::Q8Row},     {"q8_2f", Dtype::Q8TwoField}, {"q82f", Dtype::Q8TwoField},
      {"q8f", Dtype::Q8TwoField},  {"q4", Dtype::Q4Block},       {"q4_block", Dtype::Q4Block},
      {"q4block", Dtype::Q4Block}, {"q4t", Dtype::Q4Tiled},      {"Q4_Tiled", Dtype::Q4Tiled},
      {"q4tp", Dtype::Q4tp},       {"q4t_pred", Dtype::Q4tp},    {"vbit", Dtype::VbitRo},
      {"v_bit", Dtype::VbitRo},    {"vbit8", Dtype::Vbit},       {"q1", Dtype::Q1},
      {"q1s", Dtype::Q1s},         {"q1_mask", Dtype::Q1s},      {"q1t", Dtype::Q1t},
      {"q1_ternary", Dtype::Q1t},
  };
  for (const auto& [text, dtype] : names) EXPECT_EQ(parse_quant(text).dtype, dtype) << text;
  EXPECT_TRUE(parse_quant("q1p").error_diffusion);
  EXPECT_TRUE(parse_quant("q1_ptq").error_diffusion);
  EXPECT_FALSE(parse_quant("q1").error_diffusion);
  EXPECT_EQ(parse_quant("Q4_TILED").option, "q4t");
}

TEST(Quant, unknown_options_are_usage_and_name_the_nearest) {
  for (const auto& [text, near] :
       {std::pair{"q4tpp", "'q4tp'"}, {"q8_2g", "'q8_2f'"}, {"vbits", "'vbit'"}, {"", "'q8'"}}) {
    try {
      parse_quant(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_NE(std::string(error.what()).find(near), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(parse_quant("q2tp"), Error);
}

TEST(Quant, labels_are_the_closed_list_that_other_readers_know) {
  EXPECT_EQ(quant_label(parse_quant("q8")), "Q8_ROW");
  EXPECT_EQ(quant_label(parse_quant("q8_2f")), "Q8_2F");
  for (const char* four_bit : {"q4", "q4t", "q4tp"}) EXPECT_EQ(quant_label(parse_quant(four_bit)), "Q4_BLOCK");
  for (const char* other : {"vbit", "vbit8", "q1", "q1p", "q1s", "q1t"})
    EXPECT_EQ(quant_label(parse_quant(other)), "VBIT");
  EXPECT_EQ(quant_label(parse_quant("f16")), "F16");
  EXPECT_EQ(quant_label(parse_quant("bf16")), "BF16");
  EXPECT_EQ(quant_label(parse_quant("f32")), "F32");
}

TEST(Quant, tensors_that_do_not_fit_fall_back_with_a_reason) {
  EXPECT_EQ(choose(parse_quant("q8"), {4, 32}).dtype, Dtype::Q8Row);
  EXPECT_EQ(choose(parse_quant("q8"), {4, 32}).reason, "");
  for (const Shape& shape : {Shape{128}, Shape{}, Shape{2, 4, 32}, Shape{3, 10}}) {
    const Choice choice = choose(parse_quant("q4tp"), shape);
    EXPECT_EQ(choice.dtype, Dtype::F16) << shape.text();
    EXPECT_FALSE(choice.reason.empty());
  }
  for (const char* grouped : {"vbit", "q4t", "q4tp", "q1", "q1s", "q1t"}) {
    EXPECT_EQ(choose(parse_quant(grouped), {5, 33}).dtype, Dtype::Q8TwoField) << grouped;
  }
  EXPECT_EQ(choose(parse_quant("q4"), {5, 33}).dtype, Dtype::Q4Block);
  EXPECT_EQ(choose(parse_quant("q1t"), {2, 65568}).dtype, Dtype::Q8TwoField);
  EXPECT_EQ(choose(parse_quant("f32"), {7}).dtype, Dtype::F32);
}

TEST(Quant, reserved_ids_are_not_decoded_as_a_neighbour) {
  for (const int id : {5, 7, 16, 17, 255}) EXPECT_EQ(find(static_cast<uint8_t>(id)), nullptr) << id;
  EXPECT_EQ(all().size(), 14u);
  for (const Codec* codec : all()) {
    EXPECT_EQ(find(static_cast<uint8_t>(codec->dtype())), codec);
    EXPECT_EQ(find(codec->name()), codec);
    EXPECT_EQ(&of(codec->dtype()), codec);
  }
}

}  // namespace
}  // namespace cortiq::codec
