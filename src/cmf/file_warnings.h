#pragma once
#include <string>
#include <vector>

#include "cmf/file.h"

namespace cortiq::cmf {

/// Bytes of a file that no hash covers (docs/format.md lists them).
struct Unprotected {
  uint64_t bytes = 0;     ///< all of them: the envelope's first 0x70, padding, gaps, dead sections
  uint64_t not_zero = 0;  ///< those outside the envelope that are not padding: dead tails, or damage in a gap
};
Unprotected find_unprotected(const File& file);

/// What is odd in a valid file: contradictions between feature bits and content, reserved fields in use, tail bits, the
/// deprecated index, dead bytes. Nothing here changes how the file is read.
std::vector<std::string> file_warnings(const File& file, const Unprotected& unprotected);

}  // namespace cortiq::cmf
