#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace cortiq {

/// What went wrong, in the specification's words (§1.2) and those of the program around it.
enum class ErrorKind {
  InvalidMagic,
  UnsupportedVersion,
  UnsupportedFeature,
  Bounds,
  Parse,
  HashMismatch,
  Io,
  Unsupported,
  Usage,
  Cancelled,
};

/// The spelling of a kind, as errors and JSON reports print it.
std::string_view name(ErrorKind kind) noexcept;

/// The one exception type. what() is a sentence that says what is wrong, where (file, section, tensor, offset) and,
/// when known, what to do; it does not repeat the kind.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace cortiq
