#include "convert/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "convert/npy.h"
#include "convert/safetensors_writer.h"
#include "convert/support.h"

namespace cortiq::convert {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> inputs(std::string_view prefix) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(data("safetensors"))) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Safetensors, every_malformed_header_is_refused_before_payload_is_read) {
  const auto files = inputs("bad_");
  ASSERT_EQ(files.size(), 31u);
  for (const std::string& file : files) {
    const Refusal refusal = refusal_of([&] { open_safetensors_file(file); });
    EXPECT_TRUE(refusal.kind == "Bounds" || refusal.kind == "Parse") << file << ": " << refusal.kind;
    EXPECT_NE(refusal.text.find(fs::path(file).filename()), std::string::npos) << "names the file: " << refusal.text;
  }
}

TEST(Safetensors, refusals_name_the_tensor) {
  for (const char* name : {"bad_dim_float",
                           "bad_dim_negative",
                           "bad_dim_string",
                           "bad_dtype_missing",
                           "bad_dtype_unknown",
                           "bad_duplicate_name",
                           "bad_hole",
                           "bad_offsets_float",
                           "bad_offsets_missing",
                           "bad_offsets_negative",
                           "bad_offsets_past_data",
                           "bad_offsets_reversed",
                           "bad_offsets_three",
                           "bad_offsets_wrap",
                           "bad_overlap",
                           "bad_same_bytes_two_names",
                           "bad_shape_bytes_wrap",
                           "bad_shape_product_wraps",
                           "bad_size_vs_shape",
                           "bad_trailing_bytes"}) {
    const Refusal refusal =
        refusal_of([&] { open_safetensors_file(data("safetensors/" + std::string(name) + ".safetensors")); });
    EXPECT_TRUE(refusal.text.find("'a'") != std::string::npos || refusal.text.find("'b'") != std::string::npos)
        << name << ": " << refusal.text;
  }
  EXPECT_NE(refusal_of([&] {
              open_safetensors_file(data("safetensors/bad_duplicate_name.safetensors"));
            }).text.find("duplicate"),
            std::string::npos);
}

TEST(Safetensors, legal_but_unusual_headers_load) {
  const auto files = inputs("good_");
  ASSERT_EQ(files.size(), 4u);
  for (const std::string& file : files) EXPECT_NO_THROW(open_safetensors_file(file)) << file;
  for (const std::string& file : inputs("odd_")) EXPECT_NO_THROW(open_safetensors_file(file)) << file;

  const auto source = open_safetensors_file(data("safetensors/good_scalar_and_empty.safetensors"));
  const SourceTensor* scalar = source->find("s");
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(scalar->rows(), 1u);
  EXPECT_EQ(scalar->cols(), 1u);
  float value = 0;
  source->read_rows(*scalar, 0, 1, &value);
  EXPECT_TRUE(std::isfinite(value));
  ASSERT_NE(source->find("z"), nullptr);
  EXPECT_EQ(source->find("z")->elements(), 0u);
}

TEST(Safetensors, hostile_sizes_allocate_nothing) {
  // A header length of 2^62 in a file of 20 bytes must not become an allocation.
  Scratch scratch;
  std::string file("\0\0\0\0\0\0\0\x40{\"a\":1}     ", 20);
  scratch.write("x.safetensors", file);
  EXPECT_EQ(refusal_of([&] { open_safetensors_file(scratch.path("x.safetensors")); }).kind, "Bounds");
}

TEST(Safetensors, truncation_anywhere_is_refused) {
  Scratch scratch;
  const std::string whole = read_file(data("safetensors/good.safetensors"));
  for (size_t size = 0; size < whole.size(); ++size) {
    scratch.write("cut.safetensors", whole.substr(0, size));
    const Refusal refusal = refusal_of([&] { open_safetensors_file(scratch.path("cut.safetensors")); });
    EXPECT_TRUE(refusal.kind == "Bounds" || refusal.kind == "Parse") << size << " bytes: " << refusal.kind;
  }
}

// A directory of indexes.jsonl laid out on disk.
std::string lay_out(Scratch& scratch, const std::string& id) {
  std::ifstream lines(data("safetensors/indexes.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json(line, "indexes.jsonl");
    if (row["id"] != id) continue;
    for (const auto& [name, content] : row["files"].items()) {
      scratch.write(id + "/" + name, content.contains("text") ? content["text"].get<std::string>()
                                                              : from_hex(content["hex"].get<std::string>()));
    }
    return scratch.path(id);
  }
  ADD_FAILURE() << "no row " << id;
  return {};
}

TEST(SafetensorsIndex, whole_set_loads_from_directory_and_from_any_shard) {
  Scratch scratch;
  const std::string folder = lay_out(scratch, "index_good");
  for (const std::string& path : {folder, folder + "/", folder + "/m-00002-of-00002.safetensors"}) {
    const auto source = open_safetensors(path);
    ASSERT_EQ(source->tensors().size(), 2u);
    EXPECT_TRUE(source->warnings().empty());
    float b[3];
    source->read_rows(*source->find("b"), 0, 1, b);
    EXPECT_FLOAT_EQ(b[2], -0.21352945f);
  }
}

TEST(SafetensorsIndex, missing_shard_is_listed) {
  Scratch scratch;
  const Refusal refusal = refusal_of([&] { open_safetensors(lay_out(scratch, "index_missing_shard")); });
  EXPECT_EQ(refusal.kind, "Io");
  EXPECT_NE(refusal.text.find("m-00002-of-00002.safetensors"), std::string::npos) << refusal.text;
}

TEST(SafetensorsIndex, tensor_that_its_shard_does_not_hold_is_named) {
  Scratch scratch;
  const Refusal refusal = refusal_of([&] { open_safetensors(lay_out(scratch, "index_tensor_not_in_shard")); });
  EXPECT_EQ(refusal.kind, "Parse");
  EXPECT_NE(refusal.text.find("'b'"), std::string::npos) << refusal.text;
  EXPECT_NE(refusal.text.find("m-00001-of-00001"), std::string::npos) << refusal.text;
}

TEST(SafetensorsIndex, omitted_tensor_is_used_with_a_warning) {
  Scratch scratch;
  const auto source = open_safetensors(lay_out(scratch, "index_omits_tensor"));
  EXPECT_NE(source->find("b"), nullptr);
  ASSERT_EQ(source->warnings().size(), 1u);
  EXPECT_NE(source->warnings()[0].find("'b'"), std::string::npos);
}

TEST(SafetensorsIndex, second_copy_with_other_bytes_is_an_error_with_equal_bytes_a_warning) {
  Scratch scratch;
  const std::string folder = lay_out(scratch, "index_tensor_in_two_shards");
  const Refusal refusal = refusal_of([&] { open_safetensors(folder); });
  EXPECT_EQ(refusal.kind, "Parse");
  EXPECT_NE(refusal.text.find("'a'"), std::string::npos) << refusal.text;

  // The first shard's 32 bytes of 'a' over the second copy.
  const std::string first = read_file(folder + "/m-00001-of-00002.safetensors");
  std::string second = read_file(folder + "/m-00002-of-00002.safetensors");
  second.replace(second.size() - 32, 32, first.substr(first.size() - 32));
  scratch.write("index_tensor_in_two_shards/m-00002-of-00002.safetensors", second);
  const auto source = open_safetensors(folder);
  ASSERT_EQ(source->warnings().size(), 1u);
  EXPECT_EQ(source->find("a")->file, 0u) << "the index decides";
}

TEST(SafetensorsIndex, single_file_beside_an_index_wins_if_it_holds_everything) {
  Scratch scratch;
  const std::string folder = lay_out(scratch, "index_and_single_file");
  const auto source = open_safetensors(folder);
  ASSERT_EQ(source->warnings().size(), 1u);
  EXPECT_NE(source->warnings()[0].find("model.safetensors.index.json"), std::string::npos);
  float a[8];
  source->read_rows(*source->find("a"), 0, 2, a);
  EXPECT_FLOAT_EQ(a[0], 1.2961826f);

  scratch.write("index_and_single_file/model.safetensors.index.json",
                R"({"weight_map": {"a": "m-00001-of-00001.safetensors", "other": "m-00001-of-00001.safetensors"}})");
  const Refusal refusal = refusal_of([&] { open_safetensors(folder); });
  EXPECT_EQ(refusal.kind, "Parse");
  EXPECT_NE(refusal.text.find("'other'"), std::string::npos) << refusal.text;
}

TEST(SafetensorsIndex, file_names_cannot_leave_the_directory) {
  for (const char* id : {"index_path_escape", "index_absolute_path"}) {
    Scratch scratch;
    EXPECT_EQ(refusal_of([&] { open_safetensors(lay_out(scratch, id)); }).kind, "Parse") << id;
  }
}

TEST(SafetensorsIndex, links_into_a_blob_store_are_followed_and_broken_ones_named) {
  Scratch scratch;
  scratch.write("blobs/4711", read_file(data("safetensors/good.safetensors")));
  fs::create_directories(scratch.path("snapshots/mödel dir (1)"));
  const std::string link = scratch.path("snapshots/mödel dir (1)/model.safetensors");
  fs::create_symlink("../../blobs/4711", link);
  EXPECT_NO_THROW(open_safetensors(scratch.path("snapshots/mödel dir (1)/")));
  fs::remove(link);
  fs::create_symlink("../../blobs/gone", link);
  const Refusal refusal = refusal_of([&] { open_safetensors(scratch.path("snapshots/mödel dir (1)")); });
  EXPECT_EQ(refusal.kind, "Io");
  EXPECT_NE(refusal.text.find("model.safetensors"), std::string::npos) << refusal.text;
}

TEST(SafetensorsWriter, what_it_writes_is_read_back) {
  Scratch scratch;
  SafetensorsWriter writer(FileSystem::real(), scratch.path("x.safetensors"), {{"logits", {2, 3}}, {"s", {}}});
  const float values[] = {1, 2, 3, 4, 5, 6, 7};
  writer.append(std::span(values, 4));
  writer.append(std::span(values + 4, 3));
  EXPECT_EQ(refusal_of([&] { writer.append(std::span(values, 1)); }).kind, "Usage");
  writer.finish();
  const auto source = open_safetensors_file(scratch.path("x.safetensors"));
  float back[6];
  source->read_rows(*source->find("logits"), 0, 2, back);
  EXPECT_EQ(back[5], 6);
}

TEST(SafetensorsWriter, unfinished_file_leaves_nothing) {
  Scratch scratch;
  {
    SafetensorsWriter writer(FileSystem::real(), scratch.path("x.safetensors"), {{"a", {2}}});
    EXPECT_EQ(refusal_of([&] { writer.finish(); }).kind, "Usage");
  }
  EXPECT_TRUE(fs::is_empty(scratch.path("")));
}

TEST(Npy, round_trip_and_numpy_header_forms) {
  Scratch scratch;
  const float values[] = {1.5f, -2, 3, 4, 5, 6};
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{2, 3}, {6}, {1, 2, 3}}) {
    write_npy(scratch.path("x.npy"), shape, values);
    const std::string bytes = read_file(scratch.path("x.npy"));
    EXPECT_EQ((bytes.size() - 24) % 64, 0u);
    const Npy back = read_npy(scratch.path("x.npy"));
    EXPECT_EQ(back.shape, shape);
    EXPECT_EQ(back.values[1], -2);
  }
  const std::string flags = "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n";
  const std::string file = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(flags.size()) + '\0' + flags +
                           std::string("\x01\x00\x01", 3);
  const Npy mask = parse_npy(Bytes(file), "mask");
  EXPECT_EQ(mask.values, (std::vector<float>{1, 0, 1}));
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(parse_npy(Bytes(std::string_view(file).substr(0, size)), "mask"), Error) << size;
  }
  const std::string huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }";
  EXPECT_THROW(
      parse_npy(Bytes(std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(huge.size()) + '\0' + huge), "huge"),
      Error);
}

}  // namespace
}  // namespace cortiq::convert
