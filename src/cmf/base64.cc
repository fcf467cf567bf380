#include "cmf/base64.h"

namespace cortiq::cmf {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string encode_base64(std::span<const uint8_t> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t left = bytes.size() - at;
    const uint32_t word = static_cast<uint32_t>(bytes[at]) << 16 |
                          (left > 1 ? static_cast<uint32_t>(bytes[at + 1]) << 8 : 0u) | (left > 2 ? bytes[at + 2] : 0u);
    out += kAlphabet[word >> 18];
    out += kAlphabet[word >> 12 & 63];
    out += left > 1 ? kAlphabet[word >> 6 & 63] : '=';
    out += left > 2 ? kAlphabet[word & 63] : '=';
  }
  return out;
}

std::optional<std::vector<uint8_t>> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::vector<uint8_t> out;
  out.reserve(text.size() / 4 * 3);
  uint32_t word = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    uint32_t digit = 0;
    if (at < text.size() - padding) {
      const size_t found = kAlphabet.find(text[at]);
      if (found == std::string_view::npos) return std::nullopt;
      digit = static_cast<uint32_t>(found);
    }
    word = word << 6 | digit;
    if (at % 4 == 3) {
      for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(word >> shift));
      word = 0;
    }
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace cortiq::cmf
