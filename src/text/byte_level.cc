#include "text/byte_level.h"

#include "base/utf8.h"
#include "text/unicode.h"

namespace cortiq::text {

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

ByteAlphabet::ByteAlphabet() {
  byte_.fill(-1);
  char32_t beyond = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const char32_t code = printable ? b : beyond++;
    std::string text;
    append_utf8(text, code);
    for (size_t i = 0; i < text.size(); ++i) text_[b][i] = text[i];
    size_[b] = static_cast<uint8_t>(text.size());
    byte_[code] = static_cast<int16_t>(b);
  }
}

bool ByteAlphabet::read(std::string_view text, std::string& out) const {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const CodeAt one = code_at(text, at);
    if (one.code >= byte_.size() || byte_[one.code] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte_[one.code]);
    at += one.size;
  }
  return true;
}

}  // namespace cortiq::text
