#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cortiq::text {

/// The process's own seed: a file cannot be made whose tokens all fall into one slot.
uint64_t hash_seed() noexcept;

inline uint64_t mix(uint64_t a, uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// A fast hash of short strings; not the same from run to run.
inline uint64_t hash_string(std::string_view text, uint64_t seed) noexcept {
  constexpr uint64_t kA = 0xA0761D6478BD642F, kB = 0xE7037ED1A0B428DB;
  const char* p = text.data();
  size_t left = text.size();
  uint64_t hash = seed ^ kA;
  const auto load = [](const char* at) {
    uint64_t value;
    std::memcpy(&value, at, 8);
    return value;
  };
  for (; left > 16; p += 16, left -= 16) hash = mix(load(p) ^ kB, load(p + 8) ^ hash);
  uint64_t a = 0, b = 0;
  if (left >= 8) {
    a = load(p);
    b = load(p + left - 8);
  } else if (left >= 4) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + left - 4, 4);
    a = low;
    b = high;
  } else if (left > 0) {
    const auto byte = [&](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
    a = byte(0) << 16 | byte(left / 2) << 8 | byte(left - 1);
  }
  return mix(kB ^ text.size(), mix(a ^ kB, b ^ hash));
}

}  // namespace cortiq::text
