#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cmf/file.h"

// The fixed numbers of the layout (§1, §3, §4), shared by reader and writers.
namespace cortiq::cmf {

inline constexpr uint64_t kEnvelopeBytes = 128;
inline constexpr uint64_t kPage = 4096;  ///< alignment of the data section, and of large tensors in it
inline constexpr uint64_t kTensorAlignment = 64;
inline constexpr uint64_t kLargeTensor = 16384;  ///< from here on a tensor begins on a page (§0 row 63)
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;  ///< FORMAT_FACTS §3.2
inline constexpr uint32_t kKnownFeatures =
    kTensorDir | kBinaryMasks | kQuant2f | kLoopMasks | kSkillFile;  ///< bits 3 and 4 are reserved and refused

/// Alignment that writers give a tensor of this size.
inline uint64_t tensor_alignment(uint64_t nbytes) { return nbytes >= kLargeTensor ? kPage : kTensorAlignment; }

/// The envelope of a file, checked against §1.2: magic, version, features, then every section against the file's end.
Envelope parse_envelope(Bytes file, std::string_view what);

std::array<uint8_t, kEnvelopeBytes> write_envelope(const Envelope& envelope);

/// Names of the bits that are set ("TENSOR_DIR"), lowest first.
std::vector<std::string> feature_names(uint32_t features);

/// The sections in envelope order with the names that messages use.
struct NamedSection {
  std::string_view name;
  Section section;
};
std::array<NamedSection, 6> sections_of(const Envelope& envelope);

}  // namespace cortiq::cmf
