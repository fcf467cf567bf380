#include "cmf/signature.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cmf/sample_file.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

const std::string kPubkey = "79b5562e8fe654f94078b112e8a98ba7901f853ae695bed7e0e3910bad049664";

MemoryFileSystem signed_files() {
  MemoryFileSystem files;
  files.put("signed.cmf", read_data("interop/signed.cmf"));
  files.put("signed.cmf.sig", read_data("interop/signed.cmf.sig"));
  files.put("key", read_data("interop/signing.key"));
  return files;
}

TEST(Signature, of_others_is_valid_and_ours_is_the_same_bytes) {
  MemoryFileSystem files = signed_files();
  EXPECT_EQ(verify_in(files, "signed.cmf").signature, "valid");
  const std::string theirs = files.get("signed.cmf.sig");
  EXPECT_EQ(sign(files, "signed.cmf", "key"), kPubkey);
  EXPECT_EQ(files.get("signed.cmf.sig"), theirs);
}

TEST(Signature, negative_cases_fail_closed) {
  const Json manifest = read_json("interop/manifest.json");
  for (const Json& one : manifest["signature"]["negative_cases"]) {
    SCOPED_TRACE(one["what"].get<std::string>());
    MemoryFileSystem files = signed_files();
    files.put("signed.cmf.sig", one["sig_json"].dump());
    const Report report = verify_in(files, "signed.cmf");
    const bool valid = one["expect"].get<std::string>().starts_with("valid");
    EXPECT_EQ(report.signature, valid ? "valid" : "invalid");
    EXPECT_EQ(report.valid, valid) << text_of(report);
  }
}

TEST(Signature, every_malformed_document_is_invalid) {
  const Json good = Json::parse(read_data("interop/signed.cmf.sig"));
  std::vector<std::string> bad{"", "{", "[]", "null", "{}", std::string(70'000, ' ')};
  for (const char* key : {"alg", "pubkey", "sha256", "sig"}) {
    Json one = good;
    one.erase(key);
    bad.push_back(one.dump());
    one[key] = 5;
    bad.push_back(one.dump());
    one[key] = good[key].get<std::string>() + "00";
    bad.push_back(one.dump());
    std::string text = good[key];
    text[3] = 'z';
    one[key] = text;
    bad.push_back(one.dump());
  }
  for (const std::string& text : bad) {
    MemoryFileSystem files = signed_files();
    files.put("signed.cmf.sig", text);
    const Report report = verify_in(files, "signed.cmf");
    EXPECT_EQ(report.signature, "invalid") << text.substr(0, 200);
    EXPECT_TRUE(reports(report, "Parse", "signature") || reports(report, "Io", "signature")) << text_of(report);
  }
}

TEST(Signature, a_changed_file_is_noticed) {
  MemoryFileSystem files = signed_files();
  files.put("signed.cmf", files.get("signed.cmf") + "x");  // a trailing byte: valid, but not what was signed
  const Report report = verify_in(files, "signed.cmf");
  EXPECT_EQ(report.signature, "invalid");
  EXPECT_TRUE(reports(report, "HashMismatch", "signature"));
}

TEST(Signature, a_demanded_signer_must_have_signed) {
  MemoryFileSystem files = signed_files();
  std::string upper = kPubkey;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_TRUE(verify_in(files, "signed.cmf", {upper, false}).valid);
  generate_key(files, "other");
  const std::string other = public_key_of(files, "other");
  EXPECT_NE(other, kPubkey);
  EXPECT_FALSE(verify_in(files, "signed.cmf", {other, false}).valid);
  files.remove("signed.cmf.sig");
  EXPECT_TRUE(verify_in(files, "signed.cmf").valid);
  EXPECT_FALSE(verify_in(files, "signed.cmf", {kPubkey, false}).valid);
  EXPECT_THROW(verify_in(files, "signed.cmf", {"12", false}), Error);
}

TEST(Signature, keys_are_private_and_never_replaced) {
  const std::string path = testing::TempDir() + "/cortiq-test.key";
  FileSystem& files = FileSystem::real();
  if (files.exists(path)) files.remove(path);
  const std::string pubkey = generate_key(files, path);
  EXPECT_EQ(pubkey.size(), 64u);
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777u, 0600u);
  EXPECT_THROW(generate_key(files, path), Error);
  EXPECT_EQ(public_key_of(files, path), pubkey);
  files.remove(path);
}

TEST(Signature, what_is_no_valid_file_is_not_signed) {
  MemoryFileSystem files = signed_files();
  files.put("broken.cmf", files.get("signed.cmf").substr(0, 1000));
  EXPECT_THROW(sign(files, "broken.cmf", "key"), Error);
  files.put("badkey", "abc");
  EXPECT_THROW(sign(files, "signed.cmf", "badkey"), Error);
  files.put("spacedkey", "\n " + files.get("key") + "\r\n");
  EXPECT_EQ(sign(files, "signed.cmf", "spacedkey"), kPubkey);
}

}  // namespace
}  // namespace cortiq::cmf
