#include "base/sha256.h"

#include <openssl/evp.h>

namespace cortiq {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) {
    fail(ErrorKind::Unsupported, "libcrypto offers no SHA-256");
  }
}

Sha256::~Sha256() = default;

void Sha256::update(Bytes bytes) { EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()); }

Digest256 Sha256::finish() {
  Digest256 digest;
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &size);
  return digest;
}

Digest256 sha256(Bytes bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string hex(Bytes bytes) {
  std::string out;
  for (const uint8_t byte : bytes.span()) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace cortiq
