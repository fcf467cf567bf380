// Every byte of a small file with every section and dtype flipped, and the file cut at every place that matters.
#include <gtest/gtest.h>

#include <chrono>

#include "base/hash64.h"
#include "cmf/envelope.h"
#include "cmf/sample_file.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
constexpr bool kSlowBuild = true;
#else
constexpr bool kSlowBuild = false;
#endif

std::string sample_bytes() {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  return files.get("m.cmf");
}

// The files whose bytes are tried: one of ours, and others' with masks, sparse index, skills, every dtype.
std::vector<std::pair<std::string, std::string>> small_files() {
  return {{"sample", sample_bytes()},
          {"base.cmf", read_data("container/base.cmf")},
          {"mask-tail-bits.cmf", read_data("interop/mask-tail-bits.cmf")}};
}

TEST(EveryByte, open_or_verify_notices_or_the_byte_is_documented_as_unprotected) {
  for (const auto& [name, good] : small_files()) {
    SCOPED_TRACE(name);
    const Report clean = verify_bytes(good);
    ASSERT_TRUE(clean.valid) << text_of(clean);
    const Section data = open_bytes(good).file->envelope().data;
    for (size_t at = 0; at < good.size(); ++at) {
      // One file's payloads are enough for payloads.
      if (name == "mask-tail-bits.cmf" && at > data.offset && at < data.offset + data.length) continue;
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (at % 8 == 0 ? 0x80 : 0x01));
      const Report report = verify_bytes(bytes);
      const bool noticed = !report.valid || report.warnings != clean.warnings;
      // A flip in what no hash covers (docs/format.md: the envelope, padding) is an error or at least a warning.
      EXPECT_TRUE(noticed) << "byte " << at;
    }
  }
}

TEST(Truncation, at_every_section_boundary_and_beside_it) {
  for (const auto& [name, good] : small_files()) {
    SCOPED_TRACE(name);
    const auto file = open_bytes(good).file;
    ASSERT_TRUE(file);
    std::vector<uint64_t> places{0, 4, kEnvelopeBytes, good.size()};
    for (const NamedSection& one : sections_of(file->envelope())) {
      places.push_back(one.section.offset);
      places.push_back(one.section.offset + one.section.length);
    }
    for (const Tensor& tensor : file->tensors()) places.push_back(file->envelope().data.offset + tensor.offset);
    for (const uint64_t place : places) {
      for (const uint64_t size : {place - 1, place, place + 1}) {
        if (size >= good.size()) continue;
        SCOPED_TRACE(size);
        const Opened got = open_bytes(good.substr(0, size));
        EXPECT_EQ(got.kind, size < 4 ? "InvalidMagic" : "Bounds") << got.sentence;
      }
    }
  }
}

TEST(Verify, lists_every_problem_and_not_only_the_first) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  std::string bytes = files.get("m.cmf");
  const auto file = File::open("m.cmf", files);
  for (const Tensor& tensor : file->tensors()) {
    if (codec::of(tensor.dtype).nbytes(tensor.shape)) bytes[file->envelope().data.offset + tensor.offset] ^= 1;
  }
  const uint64_t vocab = file->envelope().vocab.offset + 9;
  bytes[vocab] = static_cast<char>(bytes[vocab] ^ 1);
  const Report report = verify_bytes(bytes);
  size_t fixed = 1;
  for (const Tensor& tensor : file->tensors()) fixed += codec::of(tensor.dtype).nbytes(tensor.shape).has_value();
  EXPECT_EQ(report.problems.size(), fixed) << text_of(report);
}

TEST(Verify, empty_tensors_need_no_data_section_and_its_offset_is_not_looked_at) {
  MemoryFileSystem files;
  Contents contents;
  contents.header = sample_header();
  write_sample(files, "m.cmf", std::move(contents), {sample_tensor("empty", codec::Dtype::F32, {0, 7})});
  std::string bytes = files.get("m.cmf");
  ASSERT_EQ(get64(bytes, 0x38), 0u);
  put64(bytes, 0x30, ~uint64_t{0});
  const Report report = verify_bytes(bytes);
  EXPECT_TRUE(report.valid) << text_of(report);
}

TEST(Verify, a_section_hash_of_zero_is_an_absent_one) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  std::string bytes = files.get("m.cmf");
  const auto file = File::open("m.cmf", files);
  const std::string digits = hex64(*file->header().section_hashes.vocab);
  bytes.replace(bytes.find(digits), 16, "0000000000000000");
  put64(bytes, 0x70, 0);  // the header has changed: its own hash is given up as well
  const Report report = verify_bytes(bytes);
  EXPECT_TRUE(report.valid) << text_of(report);
  EXPECT_NE(text_of(report).find("tokenizer section is protected by no hash"), std::string::npos) << text_of(report);
}

TEST(Verify, large_tensors_in_pieces_give_the_same_hash_and_find_a_scale_in_a_later_piece) {
  MemoryFileSystem files;
  std::vector<SampleTensor> tensors;
  for (const codec::Dtype dtype : {codec::Dtype::F16, codec::Dtype::Q8Row, codec::Dtype::Q4Tiled}) {
    tensors.push_back(sample_tensor(std::string(codec::name(dtype)), dtype, {5003, 2048}));
  }
  write_sample(files, "m.cmf", {sample_header(), "", {}}, tensors);
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
  std::string bytes = files.get("m.cmf");
  const auto file = File::open("m.cmf", files);
  const Tensor& tiled = *file->find("q4_tiled");
  const uint64_t scale = file->envelope().data.offset + tiled.offset + 4900 * (2048 / 32) * 18;
  bytes.replace(scale, 2, std::string("\x00\x7c", 2));
  const Report report = verify_bytes(bytes);
  EXPECT_TRUE(reports(report, "HashMismatch", "q4_tiled"));
  EXPECT_TRUE(reports(report, "Parse", "q4_tiled")) << text_of(report);
  EXPECT_EQ(report.problems.size(), 2u);
}

TEST(Open, twenty_thousand_tensors_open_within_fifteen_milliseconds) {
  MemoryFileSystem files;
  std::vector<Declaration> declarations;
  for (int i = 0; i < 20'000; ++i) {
    declarations.push_back(
        {fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", i / 256, i % 256), codec::Dtype::F32, {1}});
  }
  Writer writer(files, "m.cmf", {sample_header(), "", {}}, declarations);
  const float value = 1;
  for (size_t i = 0; i < declarations.size(); ++i) writer.append(Bytes(reinterpret_cast<const uint8_t*>(&value), 4));
  writer.finish();
  const std::string path = testing::TempDir() + "/many.cmf";
  write_file(FileSystem::real(), path, Bytes(files.get("m.cmf")));
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto file = File::open(path);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_EQ(file->tensors().size(), 20'000u);
  }
  RecordProperty("milliseconds", std::to_string(best * 1e3));
  EXPECT_LT(best, kSlowBuild ? 0.15 : 0.015);
  FileSystem::real().remove(path);
}

TEST(Open, a_million_small_tensors) {
  MemoryFileSystem files;
  constexpr size_t kCount = 1'300'000;
  std::vector<Declaration> declarations;
  declarations.reserve(kCount);
  for (size_t i = 0; i < kCount; ++i) declarations.push_back({fmt::format("t{}", i), codec::Dtype::F32, {1}});
  Writer writer(files, "m.cmf", {sample_header(), "", {}}, std::move(declarations));
  const float value = 1;
  for (size_t i = 0; i < kCount; ++i) writer.append(Bytes(reinterpret_cast<const uint8_t*>(&value), 4));
  writer.finish();
  const auto begin = std::chrono::steady_clock::now();
  const auto file = File::open("m.cmf", files);
  EXPECT_NE(file->find("t1299999"), nullptr);
  EXPECT_EQ(file->find("t1300000"), nullptr);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 20);
}

}  // namespace
}  // namespace cortiq::cmf
