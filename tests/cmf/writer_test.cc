#include "cmf/writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash64.h"
#include "cmf/masks.h"
#include "cmf/sample_file.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

TEST(Writer, what_it_writes_opens_verifies_and_says_what_was_declared) {
  MemoryFileSystem files;
  const std::vector<SampleTensor> tensors = sample_tensors();
  write_sample(files, "m.cmf");
  const Report report = verify_in(files, "m.cmf");
  EXPECT_TRUE(report.valid && report.warnings.empty()) << text_of(report);
  const auto file = File::open("m.cmf", files);
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = file->tensors()[i];
    EXPECT_EQ(tensor.name, tensors[i].declaration.name);
    EXPECT_EQ(tensor.shape, tensors[i].declaration.shape);
    EXPECT_EQ(file->payload(tensor).text(), Bytes{std::span<const uint8_t>(tensors[i].payload)}.text());
    EXPECT_EQ(tensor.hash, hash64(file->payload(tensor)));
    EXPECT_EQ(file->find(tensor.name), &tensor);
  }
  EXPECT_EQ(file->find("model.layers.0.f32.weigh"), nullptr);
  EXPECT_EQ(file->tokenizer_json(), sample_contents().tokenizer_json);
  EXPECT_EQ(file->envelope().features, kTensorDir | kBinaryMasks | kQuant2f);
}

TEST(Writer, layout_is_the_one_other_readers_expect) {
  MemoryFileSystem files;
  std::vector<SampleTensor> tensors = sample_tensors();
  tensors.push_back(sample_tensor("model.large.weight", codec::Dtype::F32, {64, 64}));  // 16 KiB: on a page
  write_sample(files, "m.cmf", sample_contents(), tensors);
  const auto file = File::open("m.cmf", files);
  const Envelope& at = file->envelope();
  EXPECT_EQ(at.header.offset, 128u);
  EXPECT_EQ(at.directory.offset, 128 + at.header.length);
  EXPECT_EQ(at.data.offset, (at.directory.offset + at.directory.length + 4095) / 4096 * 4096);
  EXPECT_EQ(at.masks.offset, at.data.offset + at.data.length);
  EXPECT_EQ(at.vocab.offset, at.masks.offset + at.masks.length);
  EXPECT_EQ(at.vocab.offset + at.vocab.length, file->size());
  EXPECT_EQ(at.index.offset, 0u);
  uint64_t end = 0;
  for (const Tensor& tensor : file->tensors()) {
    EXPECT_EQ(tensor.offset % (tensor.nbytes >= 16384 ? 4096 : 64), 0u) << tensor.name;
    EXPECT_GE(tensor.offset, end);
    end = tensor.offset + tensor.nbytes;
  }
  EXPECT_EQ(at.data.length, end);
  EXPECT_EQ(verify_in(files, "m.cmf").unprotected, [&] {
    uint64_t covered = at.header.length + at.directory.length + at.masks.length + at.vocab.length + 16;
    for (const Tensor& tensor : file->tensors()) covered += tensor.nbytes;
    return file->size() - covered;
  }());
}

TEST(Writer, empty_model_and_empty_tensors) {
  MemoryFileSystem files;
  Contents contents{sample_header(), "", {}};
  write_sample(files, "none.cmf", contents, {});
  EXPECT_TRUE(verify_in(files, "none.cmf").valid);
  EXPECT_TRUE(File::open("none.cmf", files)->tensors().empty());
  write_sample(files, "empty.cmf", contents,
               {sample_tensor("a", codec::Dtype::F32, {0, 5}), sample_tensor("b", codec::Dtype::F32, {})});
  const auto file = File::open("empty.cmf", files);
  EXPECT_EQ(file->find("a")->nbytes, 0u);
  EXPECT_EQ(file->find("b")->nbytes, 4u);
  EXPECT_TRUE(verify_in(files, "empty.cmf").valid);
}

TEST(Writer, refuses_what_a_reader_would_refuse_before_writing) {
  MemoryFileSystem files;
  const auto refused = [&](Contents contents, const std::vector<SampleTensor>& tensors) {
    try {
      write_sample(files, "m.cmf", std::move(contents), tensors);
    } catch (const Error& error) {
      EXPECT_TRUE(files.paths().empty()) << "something was left behind";
      return std::string(name(error.kind())) + " " + error.what();
    }
    return std::string();
  };
  const SampleTensor one = sample_tensor("one", codec::Dtype::F32, {4, 64});
  const Contents plain{sample_header(), "", {}};
  EXPECT_NE(refused(plain, {one, one}).find("Parse"), std::string::npos);
  EXPECT_NE(refused(plain, {sample_tensor("", codec::Dtype::F32, {4})}).find("Parse"), std::string::npos);
  EXPECT_NE(refused(plain, {sample_tensor(std::string("a\0b", 3), codec::Dtype::F32, {4})}).find("NUL"),
            std::string::npos);
  EXPECT_NE(refused(plain, {sample_tensor("\xff", codec::Dtype::F32, {4})}).find("UTF-8"), std::string::npos);
  EXPECT_NE(refused(plain, {sample_tensor(std::string(65536, 'x'), codec::Dtype::F32, {4})}).find("65535"),
            std::string::npos);
  SampleTensor shortened = one;
  shortened.payload.pop_back();
  EXPECT_NE(refused(plain, {shortened}).find("Bounds"), std::string::npos);
  Contents bad = plain;
  bad.header["arch"]["num_kv_heads"] = 3;
  EXPECT_NE(refused(bad, {one}).find("num_kv_heads"), std::string::npos);
  bad = plain;
  bad.masks = {1, 2, 3};
  EXPECT_NE(refused(bad, {one}).find("Bounds"), std::string::npos);
  Contents skilled = sample_contents();
  EXPECT_NE(refused(skilled, {sample_tensor("skill.demo.one", codec::Dtype::F32, {4, 64})}).find("not in the file"),
            std::string::npos);
  EXPECT_NE(refused(skilled, {one, sample_tensor("skill.demo.one", codec::Dtype::F32, {4, 32})}).find("cannot replace"),
            std::string::npos);
}

TEST(Writer, a_payload_too_many_or_too_few_is_an_error) {
  MemoryFileSystem files;
  const SampleTensor one = sample_tensor("one", codec::Dtype::F32, {4});
  Writer writer(files, "m.cmf", {sample_header(), "", {}}, {one.declaration});
  EXPECT_THROW(writer.finish(), Error);
  writer.append(Bytes{std::span<const uint8_t>(one.payload)});
  EXPECT_THROW(writer.append(Bytes{std::span<const uint8_t>(one.payload)}), Error);
  writer.finish();
  EXPECT_EQ(files.paths(), std::vector<std::string>{"m.cmf"});
}

TEST(Writer, unknown_header_keys_keep_their_values_digit_for_digit) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  Update update(files, "m.cmf", "copy.cmf");
  update.finish();
  const auto copy = File::open("copy.cmf", files);
  const std::string text(copy->header_bytes().text());
  EXPECT_NE(text.find(R"("somebody_elses":{"big":1e400,"long":123456789012345678901234567890,"x":[null]})"),
            std::string::npos)
      << text;
}

TEST(CanonicalOrder, head_tensors_then_layers_by_number_then_experts_role_by_role) {
  const std::vector<std::string> want{"model.embed_tokens.weight",
                                      "model.norm.weight",
                                      "lm_head.weight",
                                      "model.layers.2.input_layernorm.weight",
                                      "model.layers.2.mlp.gate.weight",
                                      "model.layers.2.self_attn.q_proj.weight",
                                      "model.layers.2.mlp.experts.0.gate_proj.weight",
                                      "model.layers.2.mlp.experts.2.gate_proj.weight",
                                      "model.layers.2.mlp.experts.10.gate_proj.weight",
                                      "model.layers.2.mlp.experts.0.up_proj.weight",
                                      "model.layers.2.mlp.experts.10.up_proj.weight",
                                      "model.layers.2.mlp.experts.0.down_proj.weight",
                                      "model.layers.10.input_layernorm.weight",
                                      "model.mtp.enorm.weight",
                                      "model.mtp.layers.0.mlp.up_proj.weight",
                                      "model.layers.x.weight",
                                      "skill.demo.model.norm.weight",
                                      "te.embed"};
  std::vector<std::string> got = want;
  std::sort(got.begin(), got.end());
  std::sort(got.begin(), got.end(), canonical_less);
  EXPECT_EQ(got, want);
}

TEST(Masks, written_and_read_again_with_tail_bits_zero) {
  const Arch arch = parse_arch(sample_header()["arch"], "");
  Masks masks = sample_masks();
  Mask open = masks.masks[0];
  open.name = "open";
  open.ffn.clear();  // absent areas are active
  open.heads.clear();
  open.gates.clear();
  masks.masks.push_back(open);
  const std::vector<uint8_t> bytes = write_masks(masks, arch);
  const Masks read = parse_masks(Bytes{std::span<const uint8_t>(bytes)}, arch, false, "m");
  ASSERT_EQ(read.masks.size(), 2u);
  EXPECT_EQ(read.masks[0].ffn, masks.masks[0].ffn);
  EXPECT_EQ(read.masks[0].heads, masks.masks[0].heads);
  EXPECT_FALSE(read.masks[0].tail_bits);
  EXPECT_EQ(read.masks[1].ffn[0], std::vector<uint8_t>(36, 1));
  EXPECT_EQ(read.masks[1].gates, (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(write_masks(read, arch), bytes);
}

TEST(Masks, rows_per_visit_need_their_feature_bit_and_set_it) {
  Contents contents{sample_header(), "", {}};
  contents.header["arch"]["num_loops"] = 3;
  const Arch arch = parse_arch(contents.header["arch"], "");
  Masks masks = sample_masks();
  masks.masks[0].per_visit = true;
  masks.masks[0].ffn.assign(6, std::vector<uint8_t>(36, 1));
  contents.masks = write_masks(masks, arch);
  EXPECT_THROW(parse_masks(Bytes{std::span<const uint8_t>(contents.masks)}, arch, false, "m"), Error);
  MemoryFileSystem files;
  write_sample(files, "m.cmf", contents, {});
  EXPECT_NE(File::open("m.cmf", files)->envelope().features & kLoopMasks, 0u);
  EXPECT_TRUE(File::open("m.cmf", files)->masks().masks[0].per_visit);
}

TEST(Masks, blobs_over_one_another_are_refused) {
  Arch arch = parse_arch(sample_header()["arch"], "");
  arch.intermediate_size = 80'000;  // a blob of 20 KB, a record of 200 bytes
  const std::vector<uint8_t> one = write_masks(sample_masks(), arch);
  const size_t meta_len = one[4] + 256u * one[5];
  Json meta = Json::parse(one.begin() + 8, one.begin() + 8 + static_cast<ptrdiff_t>(meta_len));
  for (int i = 0; i < 3; ++i) {
    Json record = meta["masks"][0];
    record["name"] = "m" + std::to_string(i);
    meta["masks"].push_back(std::move(record));
  }
  const std::string text = meta.dump();
  std::string section(8, '\0');
  const uint32_t head[2] = {4, static_cast<uint32_t>(text.size())};
  std::memcpy(section.data(), head, 8);
  section += text;
  section.append(one.begin() + 8 + static_cast<ptrdiff_t>(meta_len), one.end());
  try {
    parse_masks(Bytes(section), arch, false, "m");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Bounds) << error.what();
  }
}

}  // namespace
}  // namespace cortiq::cmf
