#include "convert/gguf/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "../support/memory_file_system.h"
#include "base/sha256.h"
#include "cmf/file.h"
#include "codec/codec.h"
#include "convert/convert.h"
#include "convert/gguf/pretokenizers.h"
#include "convert/gguf/tokenizer.h"
#include "support.h"
#include "text/tokenizer.h"

// Files that the tools of others wrote, and what is in them (tests/data/convert/gguf/README.md).
namespace cortiq::convert {
namespace {

std::string sample(const std::string& name) { return data("gguf/" + name); }
Json sample_json(const std::string& name) { return parse_json(read_file(sample(name)), name); }

// Models among them; the parts of the split one are a model together only.
std::vector<Json> expected_files() {
  std::vector<Json> out;
  const Json all = sample_json("expected.json")["files"];
  for (const Json& one : all) {
    if (!one["arch"].is_null()) out.push_back(one);
  }
  return out;
}

std::string digest(const std::vector<float>& values) {
  return hex(sha256(Bytes(reinterpret_cast<const uint8_t*>(values.data()), 4 * values.size())));
}

std::vector<float> values_of(const Source& source, const SourceTensor& tensor) {
  std::vector<float> out(tensor.elements());
  source.read_rows(tensor, 0, tensor.rows(), out.data());
  return out;
}

TEST(Gguf, every_tensor_of_every_type_decodes_to_the_recorded_values_in_the_order_of_hugging_face) {
  std::set<std::string> types;
  size_t tried = 0;
  for (const Json& facts : expected_files()) {
    Checkpoint checkpoint = open_checkpoint(sample(facts["file"]));
    const Source& source = checkpoint.weights();
    for (const Json& one : facts["tensors"]) {
      const std::string name = one["hf_name"];
      const SourceTensor* tensor = source.find(name);
      ASSERT_NE(tensor, nullptr) << facts["file"] << name;
      EXPECT_EQ(Json(tensor->shape), one["hf_shape"]) << name;
      std::string want = one.contains("hf_values_sha256") ? one["hf_values_sha256"] : one["values_sha256"];
      if (one.contains("minus_one_sha256")) want = one["minus_one_sha256"];
      EXPECT_EQ(digest(values_of(source, *tensor)), want) << facts["file"] << " " << name << " " << one["type"];
      types.insert(one["type"]);
      ++tried;
    }
    EXPECT_EQ(source.tensors().size(), facts["tensors"].size());
  }
  EXPECT_EQ(types.size(), 14u);
  EXPECT_GT(tried, 100u);
}

TEST(Gguf, rows_read_one_by_one_equal_the_whole) {
  Checkpoint checkpoint = open_checkpoint(sample("llama-mixed.gguf"));
  const Source& source = checkpoint.weights();
  for (const SourceTensor& tensor : source.tensors()) {
    const std::vector<float> whole = values_of(source, tensor);
    std::vector<float> row(tensor.cols());
    for (uint64_t r = 0; r < tensor.rows(); r += 7) {
      source.read_rows(tensor, r, 1, row.data());
      ASSERT_TRUE(std::equal(row.begin(), row.end(), whole.begin() + static_cast<ptrdiff_t>(r * tensor.cols())));
    }
  }
}

void expect_arch(const Json& got, const Json& want, const std::string& file) {
  for (const auto& [key, value] : want.items()) {
    if (key == "arch_name") continue;
    ASSERT_TRUE(got.contains(key)) << file << " " << key;
    if (value.is_number_float()) {
      EXPECT_NEAR(got[key].get<double>(), value.get<double>(), 1e-6 * std::fabs(value.get<double>())) << file << key;
    } else {
      EXPECT_EQ(got[key], value) << file << " " << key;
    }
  }
}

TEST(Gguf, metadata_becomes_the_recorded_architecture) {
  ThreadPool pool(1);
  for (const Json& facts : expected_files()) {
    const std::string file = facts["file"];
    const Plan plan = make_plan(sample(file), {.quant = "f32"}, pool);
    expect_arch(plan.contents.header["arch"], facts["arch"], file);
    EXPECT_EQ(plan.contents.header["provenance"]["source_format"], "gguf");
    const Json& chat = plan.contents.header["tokenizer_config"];
    EXPECT_EQ(chat["chat_template"], facts["tokenizer_config"]["chat_template"]) << file;
    // The ids that the file names; what other readers add by the look of a text is not taken (decisions 12).
    for (const Json& id : chat["eos_token_ids"]) {
      const Json& known = facts["tokenizer_config"]["eos_token_ids"];
      EXPECT_NE(std::find(known.begin(), known.end(), id), known.end()) << file;
    }
    EXPECT_FALSE(chat["eos_token_ids"].empty());
  }
}

TEST(Gguf, four_bit_blocks_move_into_tiles_without_loss) {
  ThreadPool pool(2);
  Checkpoint checkpoint = open_checkpoint(sample("llama-q4_0.gguf"));
  const Source& source = checkpoint.weights();
  size_t moved = 0, negative = 0;
  for (const SourceTensor& tensor : source.tensors()) {
    for (const char* dtype : {"q4_tiled", "q4_block"}) {
      const auto payload = source.encoded(tensor, dtype);
      if (tensor.dtype != "Q4_0") {
        EXPECT_FALSE(payload) << tensor.name;
        continue;
      }
      ASSERT_TRUE(payload) << tensor.name;
      const codec::Codec& codec = *codec::find(dtype);
      const codec::Shape shape{static_cast<uint32_t>(tensor.rows()), static_cast<uint32_t>(tensor.cols())};
      ASSERT_NO_THROW(codec.validate(Bytes(*payload), shape));
      std::vector<float> decoded(tensor.elements());
      codec.decode(Bytes(*payload), shape, 0, shape.rows(), decoded.data());
      EXPECT_EQ(digest(decoded), digest(values_of(source, tensor))) << tensor.name << dtype;
      ++moved;
      negative += (*payload)[1] >> 7;
    }
    EXPECT_FALSE(source.encoded(tensor, "q8_row"));
  }
  EXPECT_GE(moved, 30u);
  EXPECT_GT(negative, 0u) << "negative scales are what the encoder could not have kept";
}

TEST(Gguf, a_conversion_keeps_four_bit_blocks_and_every_value_in_f32) {
  ThreadPool pool(2);
  Checkpoint checkpoint = open_checkpoint(sample("llama-q4_0.gguf"));
  for (const char* quant : {"q4t", "f32"}) {
    MemoryFileSystem disk;
    const Plan plan = make_plan(sample("llama-q4_0.gguf"), {.quant = quant}, pool);
    execute(plan, "out.cmf", pool, Progress::none(), Cancellation::never(), disk);
    const auto file = cmf::File::open("out.cmf", disk);
    for (const cmf::Tensor& tensor : file->tensors()) {
      if (tensor.shape.rank != 2) continue;
      std::vector<float> values(tensor.shape.elements());
      codec::of(tensor.dtype).decode(file->payload(tensor), tensor.shape, 0, tensor.shape.rows(), values.data());
      const SourceTensor* from = checkpoint.weights().find(std::string(tensor.name));
      ASSERT_NE(from, nullptr);
      EXPECT_EQ(digest(values), digest(values_of(checkpoint.weights(), *from))) << quant << tensor.name;
    }
  }
}

TEST(Gguf, a_split_model_opens_by_any_part) {
  for (const char* name : {"llama-split-00001-of-00002.gguf", "llama-split-00002-of-00002.gguf"}) {
    Checkpoint checkpoint = open_checkpoint(sample(name));
    EXPECT_EQ(checkpoint.weights().tensors().size(), 21u);
    EXPECT_FALSE(checkpoint.tokenizer_json.empty());
    for (const SourceTensor& tensor : checkpoint.weights().tensors()) {
      for (const float v : values_of(checkpoint.weights(), tensor)) ASSERT_TRUE(std::isfinite(v));
    }
  }
}

TEST(Gguf, missing_and_foreign_parts_are_refused) {
  MemoryFileSystem disk;
  const std::string first = read_file(sample("llama-split-00001-of-00002.gguf"));
  const std::string second = read_file(sample("llama-split-00002-of-00002.gguf"));
  disk.put("m-00001-of-00002.gguf", first);
  EXPECT_EQ(refusal_of([&] { open_checkpoint("m-00001-of-00002.gguf", disk); }).kind, "Io");
  disk.put("m-00002-of-00002.gguf", first);
  EXPECT_EQ(refusal_of([&] { open_checkpoint("m-00001-of-00002.gguf", disk); }).kind, "Parse");
  disk.put("m-00002-of-00002.gguf", second);
  EXPECT_NO_THROW(open_checkpoint("m-00002-of-00002.gguf", disk));
  disk.put("renamed.gguf", first);
  EXPECT_EQ(refusal_of([&] { open_checkpoint("renamed.gguf", disk); }).kind, "Parse");
}

TEST(Gguf, big_endian_files_are_refused_by_that_name) {
  const Refusal refusal = refusal_of([] { open_checkpoint(sample("big-endian.gguf")); });
  EXPECT_EQ(refusal.kind, "Unsupported");
  EXPECT_NE(refusal.text.find("big-endian"), std::string::npos);
}

std::string patched(const Json& one) {
  std::string bytes = read_file(sample(one["base"]));
  for (const Json& patch : one["patches"]) {
    const std::string with = from_hex(patch["hex"]);
    bytes.replace(patch["off"].get<size_t>(), with.size(), with);
  }
  if (!one["truncate_to"].is_null()) bytes.resize(one["truncate_to"].get<size_t>());
  if (one["append_hex"].is_string()) bytes += from_hex(one["append_hex"]);
  return bytes;
}

TEST(Gguf, hostile_variants_are_refused_with_their_kind) {
  ThreadPool pool(1);
  const Json cases = sample_json("invalid.json")["cases"];
  EXPECT_EQ(cases.size(), 81u);
  for (const Json& one : cases) {
    const std::string bytes = patched(one);
    ASSERT_EQ(hex(sha256(Bytes(bytes))), one["sha256"].get<std::string>()) << one["name"];
    MemoryFileSystem disk;
    disk.put("hostile.gguf", bytes);
    const Refusal refusal = refusal_of([&] { make_plan("hostile.gguf", {.quant = "f32"}, pool, disk); });
    std::vector<std::string> kinds{one["expected"] == "OK" ? "none" : one["expected"]};
    for (const Json& other : one.value("also_accepted", Json::array())) kinds.push_back(other);
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), refusal.kind), kinds.end())
        << one["name"] << ": " << one["why"] << ": " << refusal.kind << ": " << refusal.text;
  }
}

TEST(Gguf, every_truncation_is_refused) {
  const std::string whole = read_file(sample("vocab-spm.gguf"));
  for (size_t size = 0; size < whole.size(); size += size < 2000 ? 1 : 97) {
    MemoryFileSystem disk;
    disk.put("cut.gguf", whole.substr(0, size));
    const Refusal refusal = refusal_of([&] { open_checkpoint("cut.gguf", disk); });
    EXPECT_TRUE(refusal.kind == "Bounds" || refusal.kind == "Parse") << size << refusal.kind;
  }
}

TEST(Gguf, rebuilt_tokenizers_give_the_recorded_ids) {
  const Json table = sample_json("tokenizers.json");
  const Json& cases = table["cases"];
  for (const Json& one : cases) {
    std::string file = one["file"];
    if (file == "llama-f32.gguf") file = "llama-q4_0.gguf";  // the same vocabulary
    std::string bytes = read_file(sample(file));
    const std::string pre = one.value("pre", "");
    if (!pre.empty()) {
      std::string value(8, '\0');
      value[0] = static_cast<char>(pre.size());
      bytes.replace(table["splice"]["at"].get<size_t>(), table["splice"]["old_bytes"].get<size_t>(), value + pre);
    }
    MemoryFileSystem disk;
    disk.put("vocab.gguf", bytes);
    const auto tokenizer = text::Tokenizer::parse(open_checkpoint("vocab.gguf", disk).tokenizer_json, file);
    const Json& ids = one["ids"].is_object() ? cases[one["ids"]["same_as_case"].get<size_t>()]["ids"] : one["ids"];
    const Json different = one.value("hf_ids_where_different", Json::object());
    for (size_t i = 0; i < table["strings"].size(); ++i) {
      const std::string number = std::to_string(i);
      const Json& want = different.is_object() && different.contains(number) ? different[number] : ids[i];
      const auto got = tokenizer->encode(table["strings"][i].get<std::string>(), false);
      EXPECT_EQ(Json(got), want) << file << " " << pre << " " << table["strings"][i];
    }
    std::vector<uint32_t> around = one["prefix"].get<std::vector<uint32_t>>();
    for (const Json& id : one["suffix"]) around.push_back(id.get<uint32_t>());
    EXPECT_EQ(tokenizer->encode("", true), around) << file << pre;
  }
}

TEST(Gguf, unknown_pre_tokenizers_are_refused_by_name) {
  EXPECT_TRUE(gguf::find_pre_tokenizer("llama3"));
  EXPECT_TRUE(gguf::find_pre_tokenizer("deepseek-r1-qwen"));
  EXPECT_FALSE(gguf::find_pre_tokenizer(""));
  EXPECT_FALSE(gguf::find_pre_tokenizer("llama"));
}

TEST(Gguf, a_vocabulary_without_tensors_is_no_model) {
  ThreadPool pool(1);
  const Refusal refusal = refusal_of([&] { make_plan(sample("vocab-bpe.gguf"), {}, pool); });
  EXPECT_EQ(refusal.kind, "Parse");
  EXPECT_NE(refusal.text.find("no tensors"), std::string::npos) << refusal.text;
}

}  // namespace
}  // namespace cortiq::convert
