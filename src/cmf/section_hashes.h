#pragma once
#include "base/bytes.h"
#include "base/json.h"
#include "cmf/header.h"

namespace cortiq::cmf {

/// What the header will say of a section: nothing if it is absent.
std::optional<uint64_t> section_hash(Bytes section);

/// Puts the hashes of the sections into a header (§8.1), in the place of the old ones or where the reference writes
/// them (FORMAT_FACTS §3.1 point 10); takes the key out if there is none.
void set_section_hashes(Json& header, const SectionHashes& hashes);

}  // namespace cortiq::cmf
