#pragma once
#include "cmf/file.h"

namespace cortiq::cmf {

/// HashMismatch if a section of the file is not what its recorded hash promises: what is carried over into a new state
/// gets a new hash, and damage must not get one. (Payloads are checked while they are copied.)
void require_intact_sections(const File& file);

}  // namespace cortiq::cmf
