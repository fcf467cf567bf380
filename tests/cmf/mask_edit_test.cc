#include "cmf/mask_edit.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "cmf/masks.h"
#include "cmf/sample_file.h"

namespace cortiq::cmf {
namespace {

Arch model(uint64_t loops = 1, bool moe = false) {
  Json header = sample_header();
  header["arch"]["num_loops"] = loops;
  if (moe) header["arch"]["moe"] = {{"num_experts", 5}, {"top_k", 2}, {"moe_intermediate_size", 16}};
  return parse_arch(header["arch"], "");
}

std::string blob_hex(const Mask& mask, const Arch& arch) {
  Masks masks;
  masks.masks = {mask};
  masks.masks[0].name = "x";
  masks.masks[0].priority = "Normal";
  const std::vector<uint8_t> section = write_masks(masks, arch);
  const uint64_t size = mask_blob_size(arch, mask.per_visit, mask.has_expert_fields);
  return hex(Bytes(section.data() + section.size() - size, size));
}

TEST(MaskEdit, rows_and_their_blob_say_the_same) {
  struct One {
    Arch arch;
    const char* rows;
  };
  const One all[] = {
      {model(), R"({"ffn_inactive":{"0":[0,8,35],"1":[]},"heads_inactive":{"1":[0,1,2,3]},"gates_closed":[0]})"},
      {model(2), R"rows({"ffn_inactive":{"3":[5]},"ffn_row_index":"visit (pass-major)"})rows"},
      {model(2), R"({"ffn_inactive":{"1":[5]},"ffn_row_index":"layer"})"},
      {model(1, true), R"({"experts_routable":{"1":[0,4]},"has_expert_fields":true})"},
      {model(1, true), R"({"experts_routable":{},"has_expert_fields":false})"},
      {model(), "{}"}};
  for (const One& one : all) {
    SCOPED_TRACE(one.rows);
    const Mask mask = mask_from_json(Json::parse(one.rows), one.arch, "rows.json");
    const std::string hex_text = blob_hex(mask, one.arch);
    const Mask again = mask_from_json(Json{{"blob_hex", hex_text}}, one.arch, "rows.json");
    EXPECT_EQ(again.ffn, mask.ffn);
    EXPECT_EQ(again.heads, mask.heads);
    EXPECT_EQ(again.gates, mask.gates);
    EXPECT_EQ(again.experts, mask.experts);
    EXPECT_EQ(again.per_visit, mask.per_visit);
  }
  const Mask first = mask_from_json(Json::parse(all[0].rows), all[0].arch, "");
  EXPECT_EQ(first.ffn[0][8], 0);
  EXPECT_EQ(first.ffn[0][7], 1);
  EXPECT_EQ(first.heads[1], (std::vector<uint8_t>{0, 0, 0, 0}));
  EXPECT_EQ(first.gates, (std::vector<uint8_t>{0, 1}));
}

TEST(MaskEdit, numbers_outside_the_model_are_refused_with_their_path) {
  for (const char* rows :
       {R"({"ffn_inactive":{"2":[0]}})", R"({"ffn_inactive":{"0":[36]}})", R"({"ffn_inactive":{"0":[-1]}})",
        R"({"ffn_inactive":{"x":[0]}})", R"({"ffn_inactive":{"0":3}})", R"({"ffn_inactive":[]})",
        R"({"heads_inactive":{"0":[4]}})", R"({"gates_closed":[2]})", R"({"experts_routable":{"0":[0]}})",
        R"({"has_expert_fields":true})", R"({"ffn_row_index":"row"})", R"({"blob_hex":"00"})", R"({"blob_hex":"zz"})",
        "[]"}) {
    try {
      mask_from_json(Json::parse(rows), model(), "rows.json");
      ADD_FAILURE() << rows << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Parse) << rows;
      EXPECT_NE(std::string(error.what()).find("rows.json: mask"), std::string::npos) << error.what();
    }
  }
}

TEST(MaskEdit, arrays_give_rows_per_layer_or_per_visit) {
  std::vector<float> keep(4 * 36, 1);
  keep[3 * 36 + 2] = 0;
  const MaskRows visits{4, 36, keep};
  EXPECT_THROW(mask_from_rows(&visits, nullptr, model(), "keep.npy"), Error);
  const Mask mask = mask_from_rows(&visits, nullptr, model(2), "keep.npy");
  EXPECT_TRUE(mask.per_visit);
  EXPECT_EQ(mask.ffn[3][2], 0);
  EXPECT_EQ(mask_sparsity(mask), 0.0069);
}

TEST(MaskEdit, silences_are_warned_about) {
  Mask mask = open_mask(model(1, true), false, true);
  EXPECT_EQ(mask_warnings(mask).size(), 1u);  // gates nothing
  mask.heads[0].assign(4, 0);
  mask.ffn[1].assign(36, 0);
  mask.experts[1].assign(5, 0);
  EXPECT_EQ(mask_warnings(mask).size(), 3u);
  mask.gates = {0, 0};  // closed layers are silent on purpose
  EXPECT_TRUE(mask_warnings(mask).empty());
}

}  // namespace
}  // namespace cortiq::cmf
