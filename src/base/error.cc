#include "base/error.h"

#include "base/utf8.h"

namespace cortiq {

std::string_view name(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::InvalidMagic:
      return "InvalidMagic";
    case ErrorKind::UnsupportedVersion:
      return "UnsupportedVersion";
    case ErrorKind::UnsupportedFeature:
      return "UnsupportedFeature";
    case ErrorKind::Bounds:
      return "Bounds";
    case ErrorKind::Parse:
      return "Parse";
    case ErrorKind::HashMismatch:
      return "HashMismatch";
    case ErrorKind::Io:
      return "Io";
    case ErrorKind::Unsupported:
      return "Unsupported";
    case ErrorKind::Usage:
      return "Usage";
    case ErrorKind::Cancelled:
      return "Cancelled";
  }
  return "?";
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    if (out.size() >= limit) return out + "…";
    const Decoded one = decode_utf8(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (!one.valid || one.code < 0x20 || (one.code >= 0x7F && one.code < 0xA0)) {
      out += fmt::format("\\x{:02x}", byte);
      at += 1;
      continue;
    }
    out.append(text, at, one.size);
    at += one.size;
  }
  return out;
}

}  // namespace cortiq
