#include "cmf/intact.h"

#include "base/hash64.h"

namespace cortiq::cmf {

void require_intact_sections(const File& file) {
  const Envelope& envelope = file.envelope();
  const SectionHashes& hashes = file.header().section_hashes;
  const auto check = [&](std::string_view section, Bytes bytes, std::optional<uint64_t> recorded) {
    if (bytes.empty() || !recorded || hash64(bytes) == *recorded) return;
    fail(ErrorKind::HashMismatch, "{}: the {} section is damaged: it hashes to {}, {} is recorded", file.path(),
         section, hex64(hash64(bytes)), hex64(*recorded));
  };
  const auto unless_zero = [](uint64_t hash) { return hash == 0 ? std::nullopt : std::optional(hash); };
  check("header", file.header_bytes(), unless_zero(envelope.header_hash));
  check("directory", file.directory_bytes(), unless_zero(envelope.directory_hash));
  check("masks", file.masks_bytes(), hashes.masks);
  check("tokenizer", file.vocab_bytes(), hashes.vocab);
}

}  // namespace cortiq::cmf
