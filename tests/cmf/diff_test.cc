#include "cmf/diff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cmf/compact.h"
#include "cmf/sample_file.h"
#include "cmf/sharded_writer.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

Diff diff_of(MemoryFileSystem& files, const std::string& a, const std::string& b) {
  ThreadPool pool(2);
  return diff(*FileSet::open(a, files), *FileSet::open(b, files), pool);
}

TEST(Diff, equal_models_are_equal_however_they_are_stored) {
  MemoryFileSystem files;
  write_sample(files, "a.cmf");
  compact(files, "a.cmf", "b.cmf");
  EXPECT_FALSE(diff_of(files, "a.cmf", "b.cmf").different());
  const auto shards = split(files, "a.cmf", "s.cmf", 8000);
  const Diff sharded = diff_of(files, "a.cmf", shards[1]);
  ASSERT_EQ(sharded.sections.size(), 1u);
  EXPECT_EQ(sharded.sections[0].what, "shards");
  EXPECT_TRUE(sharded.header.empty() && sharded.tensors.empty() && sharded.skills.empty());
  EXPECT_EQ(sharded.equal_tensors, sample_tensors().size());
}

TEST(Diff, every_kind_of_difference_is_named) {
  MemoryFileSystem files;
  write_sample(files, "a.cmf");
  Contents contents = sample_contents();
  contents.header["arch"]["rope_theta"] = 5e5;
  contents.header["provenance"]["more"] = 1;
  contents.header["skills"][0]["name"] = "other";
  Masks masks = sample_masks();
  masks.masks[0].ffn[0][3] = 0;
  masks.default_task = "x";
  contents.masks = write_masks(masks, parse_arch(contents.header["arch"], ""));
  std::vector<SampleTensor> tensors = sample_tensors();
  // Row 0, column 0 of the f32 tensor grows by 0.25; the f16 tensor becomes bf16; one tensor goes, one comes.
  float value;
  std::memcpy(&value, tensors[0].payload.data(), 4);
  value += 0.25F;
  std::memcpy(tensors[0].payload.data(), &value, 4);
  tensors[1] = sample_tensor(tensors[1].declaration.name, codec::Dtype::BF16, {4, 64}, 2);
  tensors[2].declaration.name = "renamed";
  write_sample(files, "b.cmf", contents, tensors);

  const Diff found = diff_of(files, "a.cmf", "b.cmf");
  const auto names = [](const std::vector<Difference>& list) {
    std::string out;
    for (const Difference& one : list) out += one.what + " ";
    return out;
  };
  EXPECT_EQ(names(found.header), "arch.rope_theta provenance.more ");
  EXPECT_EQ(names(found.masks), "default_task general ");
  EXPECT_EQ(names(found.skills), "demo ");
  EXPECT_EQ(names(found.sections), "masks ");
  ASSERT_EQ(found.tensors.size(), 4u);
  EXPECT_TRUE(found.tensors[0].bytes);
  EXPECT_NEAR(*found.tensors[0].max_abs, 0.25, 1e-6);
  EXPECT_EQ(found.tensors[1].a, "f16 [4, 64]");
  EXPECT_EQ(found.tensors[1].b, "bf16 [4, 64]");
  EXPECT_GT(*found.tensors[1].max_rel, 0);
  EXPECT_LT(*found.tensors[1].max_rel, 0.01);
  EXPECT_TRUE(found.tensors[2].only_a && !found.tensors[2].max_abs);
  EXPECT_TRUE(found.tensors[3].only_b && found.tensors[3].name == "renamed");
  const Json json = to_json(found);
  EXPECT_EQ(json["different"], true);
  EXPECT_EQ(json["tensors"][0]["name"], "model.layers.0.f32.weight");
  EXPECT_EQ(json["header"][1]["a"], nullptr);
}

TEST(Diff, specialist_and_applied_of_the_reference_differ_in_the_header_alone) {
  MemoryFileSystem files;
  files.put("a.cmf", read_data("interop/specialist.cmf"));
  files.put("b.cmf", read_data("interop/applied.cmf"));
  const Diff found = diff_of(files, "a.cmf", "b.cmf");
  EXPECT_TRUE(found.tensors.empty() && found.masks.empty());
  EXPECT_EQ(found.skills.size(), 1u);
}

}  // namespace
}  // namespace cortiq::cmf
