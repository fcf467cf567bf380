#include "base/utf8.h"

#include <algorithm>

namespace cortiq {
namespace {

// Table 3-7 of the Unicode standard: what the second byte may be, by first byte.
struct Lead {
  size_t size;
  unsigned char low, high;
};

Lead lead(unsigned char byte) noexcept {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Decoded decode_utf8(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const Lead want = lead(first);
  if (want.size == 0) return {};
  char32_t code = first & (0x7Fu >> want.size);
  for (size_t i = 1; i < want.size; ++i) {
    const unsigned char low = i == 1 ? want.low : 0x80, high = i == 1 ? want.high : 0xBF;
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {0xFFFD, i, false};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {code, want.size, true};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool valid_utf8(std::string_view text) noexcept {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Decoded one = decode_utf8(text.substr(at));
    if (!one.valid) return false;
    at += one.size;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const Decoded one = decode_utf8(text.substr(at));
    if (one.valid) {
      out.append(text, at, one.size);
    } else {
      out += "\xEF\xBF\xBD";
    }
    at += one.size;
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) noexcept {
  const size_t limit = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= limit; ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;
    const Decoded one = decode_utf8(tail);
    const bool could_grow = !one.valid && one.size == back && lead(static_cast<unsigned char>(tail[0])).size > back;
    return could_grow ? back : 0;
  }
  return 0;
}

}  // namespace cortiq
