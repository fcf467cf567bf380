#include "cmf/update.h"

#include <gtest/gtest.h>

#include "cmf/compact.h"
#include "cmf/model_state.h"
#include "cmf/sample_file.h"
#include "cmf/sharded_writer.h"

namespace cortiq::cmf {
namespace {

const codec::Shape kShape{4, 64};

/// A new skill "sql" with one replacement.
Change new_skill(const Update& update, const SampleTensor& tensor) {
  Change change;
  change.header = update.header();
  Json record = Json::object();
  record["id"] = "sql";
  record["layers"] = Json::array({0});
  (*change.header)["skills"].push_back(std::move(record));
  change.add.push_back(tensor.declaration);
  return change;
}

void append_skill(FileSystem& files, const std::string& path, const std::string& output = "") {
  const SampleTensor tensor = sample_tensor("skill.sql.model.layers.0.q4tp.weight", codec::Dtype::Q4Tiled, {4, 64}, 5);
  Update update(files, path, output);
  if (update.model().header().skill("sql")) return;  // a second run after a completed one
  update.begin(new_skill(update, tensor));
  update.append(Bytes{std::span<const uint8_t>(tensor.payload)});
  update.finish();
}

TEST(Append, old_bytes_and_offsets_never_change) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const std::string before = files.get("m.cmf");
  const auto old = File::open("m.cmf", files);
  append_skill(files, "m.cmf");
  const std::string& after = files.get("m.cmf");
  ASSERT_GT(after.size(), before.size());
  EXPECT_EQ(after.substr(128, before.size() - 128), before.substr(128));
  EXPECT_EQ(after.substr(0, 12), before.substr(0, 12));
  const auto now = File::open("m.cmf", files);
  EXPECT_EQ(now->envelope().data.offset, old->envelope().data.offset);
  for (const Tensor& tensor : old->tensors()) {
    const Tensor* same = now->find(tensor.name);
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(same->offset, tensor.offset);
  }
  const Tensor* added = now->find("skill.sql.model.layers.0.q4tp.weight");
  ASSERT_NE(added, nullptr);
  EXPECT_GE(now->envelope().data.offset + added->offset, before.size());
  EXPECT_TRUE(now->header().skill("sql"));
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
  // The reader that had the old state open still has it.
  EXPECT_EQ(old->tensors().size() + 1, now->tensors().size());
  EXPECT_EQ(old->header_bytes().text(), std::string_view(before).substr(128, old->header_bytes().size()));
}

TEST(Append, a_second_writer_is_refused) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const Update first(files, "m.cmf", "");
  try {
    append_skill(files, "m.cmf");
    FAIL() << "two writers";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
  }
}

TEST(Append, real_lock_refuses_a_second_writer) {
  const std::string path = testing::TempDir() + "/lock.cmf";
  if (FileSystem::real().exists(path)) FileSystem::real().remove(path);
  write_sample(FileSystem::real(), path);
  {
    const Update first(FileSystem::real(), path, "");
    EXPECT_THROW(append_skill(FileSystem::real(), path), Error);
  }
  append_skill(FileSystem::real(), path);
  EXPECT_TRUE(verify_in(FileSystem::real(), path).valid);
  FileSystem::real().remove(path);
}

TEST(Append, masks_and_header_alone) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  Update update(files, "m.cmf", "");
  Change change;
  Masks masks = update.model().first().masks();
  Mask more = masks.masks[0];
  more.name = "coding";
  more.task_id = 4;
  masks.masks.push_back(more);
  change.masks = write_masks(masks, update.model().header().arch);
  update.begin(std::move(change));
  update.finish();
  const Report report = verify_in(files, "m.cmf");
  EXPECT_TRUE(report.valid) << text_of(report);
  EXPECT_EQ(File::open("m.cmf", files)->masks().masks.size(), 2u);

  Update removal(files, "m.cmf", "");
  Change none;
  none.masks.emplace();
  removal.begin(std::move(none));
  removal.finish();
  const auto file = File::open("m.cmf", files);
  EXPECT_EQ(file->envelope().masks.length, 0u);
  EXPECT_EQ(file->envelope().features & kBinaryMasks, 0u);
  EXPECT_FALSE(file->header().section_hashes.masks);
}

TEST(Append, a_stale_sparse_index_is_left_out_with_a_word) {
  MemoryFileSystem files;
  files.put("m.cmf", read_data("interop/masks.cmf"));
  Update update(files, "m.cmf", "");
  Change change;
  change.masks = write_masks(update.model().first().masks(), update.model().header().arch);
  update.begin(std::move(change));
  ASSERT_EQ(update.warnings().size(), 1u);
  update.finish();
  EXPECT_EQ(File::open("m.cmf", files)->envelope().index.length, 0u);
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
}

TEST(Append, removed_tensors_leave_the_directory_and_come_back_under_their_name) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const SampleTensor again = sample_tensor("skill.demo.model.layers.0.f32.weight", codec::Dtype::F16, {4, 64}, 8);
  Update update(files, "m.cmf", "");
  Change change;
  change.remove = {again.declaration.name};
  change.add = {again.declaration};
  update.begin(std::move(change));
  update.append(Bytes{std::span<const uint8_t>(again.payload)});
  update.finish();
  EXPECT_EQ(File::open("m.cmf", files)->find(again.declaration.name)->dtype, codec::Dtype::F16);
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
  Update wrong(files, "m.cmf", "");
  Change unknown;
  unknown.remove = {"no.such.tensor"};
  EXPECT_THROW(wrong.begin(std::move(unknown)), Error);
}

TEST(Append, misspelt_replacements_name_the_nearest_tensor_and_change_nothing) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const std::string before = files.get("m.cmf");
  const SampleTensor tensor = sample_tensor("skill.sql.model.layer.0.f32.weight", codec::Dtype::F32, {4, 64});
  Update update(files, "m.cmf", "");
  try {
    update.begin(new_skill(update, tensor));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'model.layers.0.f32.weight'"), std::string::npos) << error.what();
  }
  EXPECT_EQ(files.get("m.cmf"), before);
}

TEST(Append, to_a_file_without_tensors) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf", {sample_header(), "", {}}, {});
  const SampleTensor tensor = sample_tensor("a", codec::Dtype::F32, {4, 64});
  Update update(files, "m.cmf", "");
  Change change;
  change.add = {tensor.declaration};
  update.begin(std::move(change));
  update.append(Bytes{std::span<const uint8_t>(tensor.payload)});
  update.finish();
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
  EXPECT_EQ(File::open("m.cmf", files)->envelope().data.offset % 4096, 0u);
}

TEST(Append, after_a_crash_the_dead_tail_is_passed_over) {
  MemoryFileSystem files;
  files.put("m.cmf", read_data("interop/appended-crash.cmf"));
  const SampleTensor tensor = sample_tensor("more", codec::Dtype::F32, {4, 64});
  Update update(files, "m.cmf", "");
  Change change;
  change.add = {tensor.declaration};
  update.begin(std::move(change));
  update.append(Bytes{std::span<const uint8_t>(tensor.payload)});
  update.finish();
  EXPECT_TRUE(verify_in(files, "m.cmf").valid);
}

TEST(Update, damage_gets_no_new_hash) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const auto file = File::open("m.cmf", files);
  const std::string good = files.get("m.cmf");
  const auto refused = [&](uint64_t at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    files.put("m.cmf", bytes);
    try {
      compact(files, "m.cmf", "out.cmf");
    } catch (const Error& error) {
      EXPECT_FALSE(files.exists("out.cmf"));
      return error.kind();
    }
    return ErrorKind::Usage;
  };
  EXPECT_EQ(refused(file->envelope().data.offset), ErrorKind::HashMismatch);
  EXPECT_EQ(refused(file->envelope().vocab.offset + 11), ErrorKind::HashMismatch);
  EXPECT_EQ(refused(file->envelope().masks.offset + file->envelope().masks.length - 1), ErrorKind::HashMismatch);
}

TEST(Compact, drops_dead_bytes_and_keeps_everything_else) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  append_skill(files, "m.cmf");
  const std::string state = model_state(files, "m.cmf");
  const Compacted done = compact(files, "m.cmf", "m.cmf");
  EXPECT_LT(done.bytes, done.bytes_before);
  EXPECT_EQ(files.get("m.cmf").size(), done.bytes);
  EXPECT_EQ(model_state(files, "m.cmf"), state);
  const Report report = verify_in(files, "m.cmf");
  EXPECT_TRUE(report.warnings.empty()) << text_of(report);
  EXPECT_EQ(files.paths(), std::vector<std::string>{"m.cmf"});
}

TEST(Compact, equals_the_reference) {
  MemoryFileSystem files;
  files.put("m.cmf", read_data("interop/appended.cmf"));
  files.put("theirs.cmf", read_data("interop/appended-compact.cmf"));
  compact(files, "m.cmf", "mine.cmf");
  const auto mine = File::open("mine.cmf", files), theirs = File::open("theirs.cmf", files);
  ASSERT_EQ(mine->tensors().size(), theirs->tensors().size());
  EXPECT_EQ(mine->directory_hash(), theirs->directory_hash());
  EXPECT_EQ(mine->envelope().data.length, theirs->envelope().data.length);
}

TEST(Split, merged_again_it_is_the_same_model) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  compact(files, "m.cmf", "m.cmf");
  const auto paths = split(files, "m.cmf", "s.cmf", 4 * 4 * 64 * 5);
  ASSERT_EQ(paths.size(), 4u);
  EXPECT_EQ(paths[0], "s-00001-of-00004.cmf");
  for (const std::string& path : paths) {
    const Report alone = verify_in(files, path);
    EXPECT_TRUE(alone.valid) << text_of(alone);
    EXPECT_EQ(FileSet::open(path, files)->tensors().size(), sample_tensors().size());
  }
  const auto second = File::open(paths[1], files);
  EXPECT_EQ(second->envelope().vocab.length, 0u);
  EXPECT_TRUE(second->header().skills.empty());
  EXPECT_FALSE(second->header().chat);
  merge(files, paths[2], "merged.cmf");
  // The order on disk is the canonical one now; nothing else differs.
  std::string a = model_state(files, "m.cmf"), b = model_state(files, "merged.cmf");
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
  EXPECT_FALSE(File::open("merged.cmf", files)->header().shard);
  EXPECT_THROW(merge(files, "merged.cmf", "again.cmf"), Error);
  EXPECT_THROW(compact(files, paths[0], paths[1]), Error);
}

TEST(Split, follows_the_reference_python_converter) {
  // py-sh-*: 180000 rough f32 bytes a shard.
  MemoryFileSystem files;
  std::vector<size_t> theirs;
  for (int no = 1; no <= 3; ++no) {
    const std::string name = fmt::format("py-sh-{:05}-of-00003.cmf", no);
    files.put(name, read_data("interop/" + name));
    theirs.push_back(File::open(name, files)->tensors().size());
  }
  merge(files, "py-sh-00001-of-00003.cmf", "whole.cmf");
  const auto paths = split(files, "whole.cmf", "mine.cmf", 180000);
  ASSERT_EQ(paths.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(File::open(paths[i], files)->tensors().size(), theirs[i]);
}

TEST(Split, never_replaces_another_set_but_may_run_again) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  const auto paths = split(files, "m.cmf", "s.cmf", 8000);
  EXPECT_EQ(split(files, "m.cmf", "s.cmf", 8000), paths);
  write_sample(files, "other.cmf", {sample_header(), "", {}},
               {sample_tensor("a", codec::Dtype::F32, kShape), sample_tensor("b", codec::Dtype::F32, kShape)});
  const std::string before = files.get(paths[0]);
  const std::string clash = fmt::format("s-00001-of-{:05}.cmf", 2);
  files.put(clash, before);
  try {
    split(files, "other.cmf", "s.cmf", 1024);
    FAIL() << "replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io) << error.what();
  }
  EXPECT_EQ(files.get(clash), before);
}

TEST(FileSet, names_what_is_wrong_with_a_set) {
  MemoryFileSystem files;
  write_sample(files, "m.cmf");
  Contents other = sample_contents();
  other.header["provenance"]["tool"] = "another";
  write_sample(files, "n.cmf", other, sample_tensors());
  const auto m = split(files, "m.cmf", "m.cmf", 8000), n = split(files, "n.cmf", "n.cmf", 8000);
  ASSERT_EQ(m.size(), 3u);
  const auto sentence = [&](const std::string& path) {
    try {
      FileSet::open(path, files);
    } catch (const Error& error) {
      return std::string(name(error.kind())) + " " + error.what();
    }
    return std::string("ok");
  };
  const std::string second = files.get(m[1]);
  // A shard of another model with the same name and number.
  files.put(m[1], files.get(n[1]));
  EXPECT_NE(sentence(m[0]).find("another model"), std::string::npos) << sentence(m[0]);
  // The same shard of the same weights, another tensor in it: only the set's own mark tells them apart.
  std::vector<SampleTensor> changed = sample_tensors();
  changed[3] = sample_tensor(changed[3].declaration.name, changed[3].declaration.dtype, {4, 64}, 77);
  write_sample(files, "k.cmf", sample_contents(), changed);
  const auto k = split(files, "k.cmf", "k.cmf", 8000);
  files.put(m[1], files.get(k[1]));
  EXPECT_NE(sentence(m[0]).find("another model"), std::string::npos) << sentence(m[0]);
  // Missing.
  files.put(m[1], second);
  EXPECT_EQ(sentence(m[2]), "ok");
  files.remove(m[1]);
  EXPECT_NE(sentence(m[0]).find("Io " + m[1]), std::string::npos) << sentence(m[0]);
  // One shard twice.
  files.put(m[1], files.get(m[0]));
  EXPECT_NE(sentence(m[0]).find("its header says shard 1 of 3"), std::string::npos) << sentence(m[0]);
}

TEST(FileSet, one_tensor_in_two_shards_is_refused_with_both_numbers) {
  MemoryFileSystem files;
  for (const uint64_t no : {1U, 2U}) {
    const SampleTensor tensor = sample_tensor("twice", codec::Dtype::F32, kShape);
    write_sample(files, fmt::format("d-{:05}-of-00002.cmf", no), {shard_header(sample_header(), no, 2, "x"), "", {}},
                 {tensor});
  }
  try {
    FileSet::open("d-00001-of-00002.cmf", files);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("in shard 1 and in shard 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cortiq::cmf
