#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cortiq::text {

/// The printable alphabet of byte-level tokenizers: 33…126, 161…172 and 174…255 stand for themselves, the other 68
/// bytes in ascending order are U+0100, U+0101, …
class ByteAlphabet {
 public:
  static const ByteAlphabet& get();

  std::string_view character(unsigned char byte) const noexcept { return {text_[byte].data(), size_[byte]}; }

  /// Appends the alphabet's spelling of bytes.
  void spell(std::string_view bytes, std::string& out) const {
    for (const char c : bytes) out.append(character(static_cast<unsigned char>(c)));
  }

  /// Appends the bytes that a text spells; false, with nothing appended, if a character is not of the alphabet.
  bool read(std::string_view text, std::string& out) const;

 private:
  ByteAlphabet();

  std::array<std::array<char, 2>, 256> text_{};
  std::array<uint8_t, 256> size_{};
  std::array<int16_t, 0x144> byte_{};  // by code point, -1: none
};

}  // namespace cortiq::text
