#pragma once
#include <string>

#include "base/cancel.h"
#include "base/file_system.h"

namespace cortiq::cmf {

/// The detached signature beside a file (§8.2, FORMAT_FACTS §15): "model.cmf.sig", Ed25519 over the file's SHA-256.
enum class Signature { Absent, Valid, Invalid };
std::string_view name(Signature state) noexcept;

struct SignatureCheck {
  Signature state = Signature::Absent;
  ErrorKind kind = ErrorKind::HashMismatch;  ///< of an invalid one: Parse when malformed
  std::string message;                       ///< why it is invalid
  std::string pubkey;                        ///< of a valid one, 64 hex digits
};

std::string signature_path(const std::string& path);

/// Checks the signature of a file whose bytes are given. Whatever is not a well-formed, matching signature of the
/// demanded signer is Invalid. `pinned`: 64 hex digits in any case, or empty for any signer; a demanded signer makes an
/// absent signature Invalid.
SignatureCheck check_signature(FileSystem& files, const std::string& path, Bytes content, const std::string& pinned,
                               const Cancellation& cancel = Cancellation::never());

/// Writes a new private key (64 hex digits, readable by the owner alone) and returns its public key in hex. An existing
/// file is never replaced.
std::string generate_key(FileSystem& files, const std::string& key_path);

/// The public key of a key file.
std::string public_key_of(FileSystem& files, const std::string& key_path);

/// Signs a valid CMF file: writes its signature beside it, replacing an older one. Returns the public key.
std::string sign(FileSystem& files, const std::string& path, const std::string& key_path,
                 const Cancellation& cancel = Cancellation::never());

}  // namespace cortiq::cmf
