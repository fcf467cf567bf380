#include "cmf/envelope.h"

#include <cstring>

namespace cortiq::cmf {
namespace {

constexpr std::array<uint8_t, 4> kMagic{'C', 'M', 'F', 1};

// Where the fields lie (§1). header, directory, data, masks, vocab and index follow each other from 0x10 on.
constexpr uint64_t kVersionAt = 0x04, kFlagsAt = 0x08, kFeaturesAt = 0x0C, kSectionsAt = 0x10, kHeaderHashAt = 0x70,
                   kDirectoryHashAt = 0x78;

constexpr std::array<std::string_view, 7> kFeatureNames{"TENSOR_DIR", "BINARY_MASKS", "QUANT_2F",  "DELTA_MASKS",
                                                        "HOT_PACKS",  "LOOP_MASKS",   "SKILL_FILE"};

// The sections' places in the structure and their names, in envelope order.
struct Row {
  std::string_view name;
  Section Envelope::*section;
};
constexpr std::array<Row, 6> kSections{Row{"header", &Envelope::header},   Row{"directory", &Envelope::directory},
                                       Row{"data", &Envelope::data},       Row{"masks", &Envelope::masks},
                                       Row{"tokenizer", &Envelope::vocab}, Row{"index", &Envelope::index}};

void check_section(const NamedSection& one, uint64_t file_size, std::string_view what) {
  const auto [offset, length] = one.section;
  if (length == 0) {
    // Row 10: header and directory are never absent; row 8: for the others length 0 is what absent means.
    if (one.name == "header" || one.name == "directory") {
      fail(ErrorKind::Bounds, "{}: the {} section has length 0", what, one.name);
    }
    return;
  }
  if (offset < kEnvelopeBytes) {
    fail(ErrorKind::Bounds, "{}: the {} section begins at byte {}, inside the envelope of {} bytes", what, one.name,
         offset, kEnvelopeBytes);
  }
  if (offset > file_size || length > file_size - offset) {
    fail(ErrorKind::Bounds,
         "{}: the {} section of {} bytes at {} ends beyond the file's {} bytes: the file is cut short or damaged; copy "
         "it "
         "again",
         what, one.name, length, offset, file_size);
  }
}

}  // namespace

Envelope parse_envelope(Bytes file, std::string_view what) {
  if (file.size() < kMagic.size() || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    fail(ErrorKind::InvalidMagic, "{}: does not begin with CMF\\x01: not a CMF file", what);
  }
  if (file.size() < kEnvelopeBytes) {
    fail(ErrorKind::Bounds, "{}: {} bytes are less than the envelope of {}: the file is cut short", what, file.size(),
         kEnvelopeBytes);
  }
  Envelope out;
  out.version = file.read<uint32_t>(kVersionAt);
  if (out.version != 2) {
    fail(ErrorKind::UnsupportedVersion, "{}: version {}, this program reads version 2", what, out.version);
  }
  out.flags = file.read<uint32_t>(kFlagsAt);  // reserved: ignored on read (row 7)
  out.features = file.read<uint32_t>(kFeaturesAt);
  if (const uint32_t unknown = out.features & ~kKnownFeatures) {
    std::string names;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      if (!(unknown >> bit & 1)) continue;
      names += fmt::format("{}bit {}", names.empty() ? "" : ", ", bit);
      if (bit < kFeatureNames.size()) names += fmt::format(" ({})", kFeatureNames[bit]);
    }
    fail(ErrorKind::UnsupportedFeature, "{}: requires {}, which this program does not know", what, names);
  }
  for (size_t i = 0; i < kSections.size(); ++i) {
    out.*kSections[i].section = {file.read<uint64_t>(kSectionsAt + 16 * i),
                                 file.read<uint64_t>(kSectionsAt + 16 * i + 8)};
  }
  out.header_hash = file.read<uint64_t>(kHeaderHashAt);
  out.directory_hash = file.read<uint64_t>(kDirectoryHashAt);
  for (const NamedSection& one : sections_of(out)) check_section(one, file.size(), what);
  if (out.data.length != 0 && out.data.offset % kPage != 0) {
    fail(ErrorKind::Bounds, "{}: the data section begins at {}, not at a multiple of {}", what, out.data.offset, kPage);
  }
  return out;
}

std::array<uint8_t, kEnvelopeBytes> write_envelope(const Envelope& envelope) {
  std::array<uint8_t, kEnvelopeBytes> out{};
  const auto put = [&](uint64_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put(kVersionAt, envelope.version);
  put(kFlagsAt, envelope.flags);
  put(kFeaturesAt, envelope.features);
  for (size_t i = 0; i < kSections.size(); ++i) {
    const Section& section = envelope.*kSections[i].section;
    put(kSectionsAt + 16 * i, section.offset);
    put(kSectionsAt + 16 * i + 8, section.length);
  }
  put(kHeaderHashAt, envelope.header_hash);
  put(kDirectoryHashAt, envelope.directory_hash);
  return out;
}

std::vector<std::string> feature_names(uint32_t features) {
  std::vector<std::string> out;
  for (size_t bit = 0; bit < kFeatureNames.size(); ++bit) {
    if (features >> bit & 1) out.emplace_back(kFeatureNames[bit]);
  }
  return out;
}

std::array<NamedSection, 6> sections_of(const Envelope& envelope) {
  std::array<NamedSection, 6> out;
  for (size_t i = 0; i < kSections.size(); ++i) out[i] = {kSections[i].name, envelope.*kSections[i].section};
  return out;
}

}  // namespace cortiq::cmf
