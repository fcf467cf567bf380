#include "cmf/signature.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/sha256.h"
#include "cmf/fields.h"
#include "cmf/file.h"
#include "cmf/lossless_json.h"

namespace cortiq::cmf {
namespace {

constexpr std::string_view kAlgorithm = "ed25519-sha256";
constexpr size_t kKeyBytes = 32, kSignatureBytes = 64;
constexpr uint64_t kMaxFile = 65536;  // a signature or key file is some hundred bytes

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

[[noreturn]] void fail_crypto(std::string_view what) { fail(ErrorKind::Unsupported, "libcrypto cannot {}", what); }

template <size_t N>
std::optional<std::array<uint8_t, N>> parse_hex(std::string_view text) {
  if (text.size() != 2 * N) return std::nullopt;
  std::array<uint8_t, N> out{};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (digit < 0) return std::nullopt;
    out[i / 2] = static_cast<uint8_t>(out[i / 2] << 4 | digit);
  }
  return out;
}

// In pieces, so that a wish to stop is heard within some milliseconds.
Digest256 digest_of(Bytes content, const Cancellation& cancel) {
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  Sha256 hash;
  for (uint64_t at = 0; at < content.size(); at += kPiece) {
    cancel.check();
    hash.update(content.slice(at, std::min(kPiece, content.size() - at)));
  }
  return hash.finish();
}

bool verifies(std::span<const uint8_t> pubkey, std::span<const uint8_t> message, std::span<const uint8_t> signature) {
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, pubkey.data(), pubkey.size()));
  const Context context(EVP_MD_CTX_new());
  return key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(), message.size()) == 1;
}

Key read_key(FileSystem& files, const std::string& path) {
  std::string text = files.read_all(path, kMaxFile);
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto first = std::find_if_not(text.begin(), text.end(), is_space);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), is_space).base();
  const auto seed =
      parse_hex<kKeyBytes>(first < last ? std::string_view(&*first, static_cast<size_t>(last - first)) : "");
  if (!seed) fail(ErrorKind::Parse, "{}: a key file holds 64 hex digits, this one does not", path);
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed->data(), seed->size()));
  if (!key) fail_crypto("make an Ed25519 key");
  return key;
}

std::string public_hex(const Key& key) {
  std::array<uint8_t, kKeyBytes> raw{};
  size_t size = raw.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &size) != 1 || size != raw.size()) {
    fail_crypto("derive an Ed25519 public key");
  }
  return hex(Bytes(raw.data(), raw.size()));
}

SignatureCheck invalid(ErrorKind kind, std::string message) {
  return {Signature::Invalid, kind, std::move(message), ""};
}

}  // namespace

std::string_view name(Signature state) noexcept {
  switch (state) {
    case Signature::Absent:
      return "absent";
    case Signature::Valid:
      return "valid";
    case Signature::Invalid:
      return "invalid";
  }
  return "?";
}

std::string signature_path(const std::string& path) { return path + ".sig"; }

SignatureCheck check_signature(FileSystem& files, const std::string& path, Bytes content, const std::string& pinned,
                               const Cancellation& cancel) {
  const auto demanded = parse_hex<kKeyBytes>(pinned);
  if (!pinned.empty() && !demanded)
    fail(ErrorKind::Usage, "a public key is 64 hex digits, '{}' is not", printable(pinned, 80));
  const std::string beside = signature_path(path);
  if (!files.exists(beside)) {
    if (!demanded) return {};
    return invalid(ErrorKind::HashMismatch,
                   fmt::format("{}: there is no signature, and one by {} is demanded", beside, pinned));
  }
  try {
    const std::string text = files.read_all(beside, kMaxFile);
    const Json json = parse_lossless_json(text, beside);
    const Fields in(json, "", beside);
    if (const std::string algorithm = in.text("alg"); algorithm != kAlgorithm) {
      in.wrong("alg", fmt::format("'{}' is not {}", printable(algorithm, 40), kAlgorithm));
    }
    const auto pubkey = parse_hex<kKeyBytes>(in.text("pubkey"));
    const auto digest = parse_hex<32>(in.text("sha256"));
    const auto signature = parse_hex<kSignatureBytes>(in.text("sig"));
    if (!pubkey) in.wrong("pubkey", "must be 64 hex digits");
    if (!digest) in.wrong("sha256", "must be 64 hex digits");
    if (!signature) in.wrong("sig", "must be 128 hex digits");
    if (demanded && *demanded != *pubkey) {
      return invalid(ErrorKind::HashMismatch, fmt::format("{}: signed by {}, a signature by {} is demanded", beside,
                                                          hex(Bytes(pubkey->data(), pubkey->size())), pinned));
    }
    if (const Digest256 actual = digest_of(content, cancel); actual != *digest) {
      return invalid(ErrorKind::HashMismatch,
                     fmt::format("{}: signs a file with SHA-256 {}, this one has {}", beside,
                                 hex(Bytes(digest->data(), digest->size())), hex(Bytes(actual.data(), actual.size()))));
    }
    // §8.2: the message is the 32 bytes of the digest, not its spelling.
    if (!verifies(*pubkey, *digest, *signature)) {
      return invalid(ErrorKind::HashMismatch,
                     fmt::format("{}: the signature does not match its key and digest", beside));
    }
    return {Signature::Valid, ErrorKind::HashMismatch, "", hex(Bytes(pubkey->data(), pubkey->size()))};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled) throw;
    return invalid(error.kind(), error.what());
  }
}

std::string generate_key(FileSystem& files, const std::string& key_path) {
  std::array<uint8_t, kKeyBytes> seed{};
  if (RAND_bytes(seed.data(), static_cast<int>(seed.size())) != 1) fail_crypto("give random bytes");
  if (files.exists(key_path)) fail(ErrorKind::Io, "{}: exists; a key is never replaced, name another file", key_path);
  auto file = files.create_private(key_path);
  try {
    file->append(Bytes(hex(Bytes(seed.data(), seed.size()))));
    file->sync();
    file.reset();
    files.sync_directory(directory_of(key_path));
    return public_hex(read_key(files, key_path));
  } catch (const Error&) {
    file.reset();
    files.remove(key_path);
    throw;
  }
}

std::string public_key_of(FileSystem& files, const std::string& key_path) {
  return public_hex(read_key(files, key_path));
}

std::string sign(FileSystem& files, const std::string& path, const std::string& key_path, const Cancellation& cancel) {
  const Key key = read_key(files, key_path);
  const auto file = File::open(path, files);
  const Digest256 digest = digest_of(file->mapping().bytes(), cancel);
  const Context context(EVP_MD_CTX_new());
  std::array<uint8_t, kSignatureBytes> signature{};
  size_t size = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, digest.data(), digest.size()) != 1 ||
      size != signature.size()) {
    fail_crypto("sign with Ed25519");
  }
  // Keys sorted, two spaces, no newline at the end: as the reference writes it (FORMAT_FACTS §15).
  const std::string pubkey = public_hex(key);
  Json json = Json::object();
  json["alg"] = kAlgorithm;
  json["pubkey"] = pubkey;
  json["sha256"] = hex(Bytes(digest.data(), digest.size()));
  json["sig"] = hex(Bytes(signature.data(), signature.size()));
  write_file(files, signature_path(path), Bytes(json.dump(2)));
  return pubkey;
}

}  // namespace cortiq::cmf
