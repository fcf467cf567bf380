// Files written by others, and broken variants of them.
#include <gtest/gtest.h>

#include "base/hash64.h"
#include "base/sha256.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

bool refused_by_the_specification(const Json& facts) {
  const auto at = facts.find("spec_expectation");
  return at != facts.end() && at->is_string() && *at != "valid" && *at != "OK";
}

TEST(Interop, every_file_opens_verifies_and_decodes_to_the_recorded_values) {
  const Json manifest = read_json("interop/manifest.json");
  for (const Json& facts : manifest["files"]) {
    const std::string name = facts["file"];
    SCOPED_TRACE(name);
    const std::string path = data_path("interop/" + name);
    const Report report = verify_in(FileSystem::real(), path);
    if (refused_by_the_specification(facts)) {
      EXPECT_TRUE(reports(report, facts["spec_expectation"])) << text_of(report);
      continue;
    }
    ASSERT_TRUE(report.valid) << text_of(report);
    const auto set = FileSet::open(path);
    const auto file = File::open(path);
    ASSERT_EQ(file->tensors().size(), facts["tensors"].size());
    for (const Json& tensor : facts["tensors"]) {
      const Tensor* mine = file->find(tensor["name"].get<std::string>());
      ASSERT_NE(mine, nullptr) << tensor["name"];
      EXPECT_EQ(codec::name(mine->dtype), tensor["dtype"].get<std::string>());
      EXPECT_EQ(mine->offset, tensor["off"].get<uint64_t>());
      EXPECT_EQ(mine->nbytes, tensor["nbytes"].get<uint64_t>());
      EXPECT_EQ(hex64(mine->hash), tensor["hash"].get<std::string>());
      const Digest256 payload = sha256(file->payload(*mine));
      EXPECT_EQ(hex(Bytes(payload.data(), payload.size())), tensor["payload_sha256"].get<std::string>());
      if (tensor["dtype"] == "u8" || !tensor.contains("decoded_f32_sha256")) continue;
      std::vector<float> values(mine->shape.elements());
      decode_rows(*set, *set->find(mine->name), 0, mine->shape.rows(), values.data());
      const Digest256 decoded = sha256(Bytes(reinterpret_cast<const uint8_t*>(values.data()), 4 * values.size()));
      EXPECT_EQ(hex(Bytes(decoded.data(), decoded.size())), tensor["decoded_f32_sha256"].get<std::string>())
          << tensor["name"];
    }
  }
}

std::string broken(const Json& one) {
  std::string bytes = read_data("interop/" + one["base"].get<std::string>());
  if (one.contains("patches")) {
    for (const Json& patch : one["patches"]) {
      const std::string hex_text = patch["hex"];
      bytes.replace(patch["off"], hex_text.size() / 2, from_hex(hex_text));
    }
  }
  if (one.contains("truncate_to") && !one["truncate_to"].is_null()) bytes.resize(one["truncate_to"]);
  if (one.contains("append_hex") && !one["append_hex"].is_null()) bytes += from_hex(one["append_hex"]);
  return bytes;
}

TEST(Interop, every_broken_variant_is_refused_with_its_kind) {
  const Json invalid = read_json("interop/invalid.json");
  for (const Json& one : invalid["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const Opened got = open_bytes(broken(one));
    std::vector<std::string> accepted{one["expected"] == "OK" ? "ok" : one["expected"].get<std::string>()};
    if (one.contains("also_accepted") && one["expected"] != "OK") {
      for (const Json& kind : one["also_accepted"]) accepted.push_back(kind);
    }
    EXPECT_NE(std::find(accepted.begin(), accepted.end(), got.kind), accepted.end())
        << got.kind << ": " << got.sentence;
    if (got.kind != "ok") {
      EXPECT_NE(got.sentence.find("case.cmf"), std::string::npos) << got.sentence;
    }
  }
}

TEST(Interop, verify_names_the_damaged_part) {
  const Json invalid = read_json("interop/invalid.json");
  for (const Json& one : invalid["verify_cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const Report report = verify_bytes(broken(one));
    const std::string want = one["verify_problem"];
    if (want.starts_with("none")) {
      EXPECT_TRUE(report.valid) << text_of(report);
      EXPECT_TRUE(warns(report, "not zero")) << text_of(report);
    } else if (want == "dir" || want == "dir and that tensor") {
      EXPECT_TRUE(reports(report, "HashMismatch", "directory")) << text_of(report);
      EXPECT_EQ(report.problems.size(), want == "dir" ? 1u : 2u) << text_of(report);
    } else {
      EXPECT_TRUE(reports(report, "HashMismatch", want == "vocab" ? "tokenizer" : want)) << text_of(report);
    }
  }
}

}  // namespace
}  // namespace cortiq::cmf
