#pragma once
#include <array>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace cortiq {

using Digest256 = std::array<uint8_t, 32>;

/// SHA-256 over data that arrives in pieces (libcrypto, which uses the processor's instructions for it).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(Bytes bytes);
  Digest256 finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest256 sha256(Bytes bytes);

/// Lower-case hex of any bytes.
std::string hex(Bytes bytes);
inline std::string hex(const Digest256& digest) { return hex(Bytes(digest.data(), digest.size())); }

}  // namespace cortiq
