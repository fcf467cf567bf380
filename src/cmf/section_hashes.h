#pragma once
#include "base/bytes.h"
#include "base/json.h"

namespace cortiq::cmf {

/// The bytes of the sections that the header protects (§8.1); empty: absent.
struct ProtectedSections {
  Bytes masks, vocab, index;
};

/// Puts the hashes of the sections into a header, in the place of the old ones or where the reference writes them
/// (FORMAT_FACTS §3.1 point 10); takes the key out if no section exists.
void set_section_hashes(Json& header, const ProtectedSections& sections);

}  // namespace cortiq::cmf
