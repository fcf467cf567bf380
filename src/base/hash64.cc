#include "base/hash64.h"

#include <algorithm>

#include "base/cpu.h"
#include "base/hash64_loops.h"

namespace cortiq {
namespace {

constexpr uint64_t fmix(uint64_t x) noexcept {
  x ^= x >> 33;
  x *= kHash64Factor1;
  x ^= x >> 33;
  x *= kHash64Factor2;
  return x ^ x >> 33;
}

// The last word, padded with zero bytes.
uint64_t tail_word(const uint8_t* bytes, size_t count) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

uint64_t term(uint64_t word, uint64_t index) noexcept { return fmix(word) ^ index * kHash64Salt; }

}  // namespace

uint64_t hash64_fold_scalar(const uint8_t* words, uint64_t count, uint64_t first) noexcept {
  uint64_t fold = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t word;
    std::memcpy(&word, words + 8 * i, 8);
    fold ^= term(word, first + i);
  }
  return fold;
}

namespace {

using Fold = uint64_t (*)(const uint8_t*, uint64_t, uint64_t) noexcept;

Fold choose_fold() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::Avx512) return hash64_fold_avx512;
  if (active_isa() >= Isa::Avx2) return hash64_fold_avx2;
#endif
  return hash64_fold_scalar;
}

}  // namespace

uint64_t hash64_fold(const uint8_t* words, uint64_t count, uint64_t first) {
  static const Fold fold = choose_fold();
  return fold(words, count, first);
}

uint64_t hash64_piece(Bytes piece, uint64_t first_word) noexcept {
  const uint64_t words = piece.size() / 8, rest = piece.size() % 8;
  uint64_t fold = hash64_fold(piece.data(), words, first_word);
  if (rest != 0) fold ^= term(tail_word(piece.data() + 8 * words, rest), first_word + words);
  return fold;
}

uint64_t hash64_finish(uint64_t fold, uint64_t length) noexcept { return fmix(fold ^ length); }

uint64_t hash64(Bytes bytes) { return hash64_finish(hash64_piece(bytes, 0), bytes.size()); }

void Hash64::update(Bytes bytes) {
  if (bytes.empty()) return;  // its pointer may be null
  const uint8_t* at = bytes.data();
  uint64_t left = bytes.size();
  const uint64_t held = length_ % 8;
  if (held != 0) {
    const uint64_t take = std::min<uint64_t>(8 - held, left);
    std::memcpy(tail_ + held, at, take);
    at += take;
    left -= take;
    length_ += take;
    if (length_ % 8 != 0) return;
    fold_ ^= term(tail_word(tail_, 8), length_ / 8 - 1);
  }
  const uint64_t words = left / 8;
  fold_ ^= hash64_fold(at, words, length_ / 8);
  length_ += left;
  if (left % 8 != 0) std::memcpy(tail_, at + 8 * words, left % 8);
}

uint64_t Hash64::finish() const noexcept {
  const uint64_t rest = length_ % 8;
  const uint64_t fold = rest == 0 ? fold_ : fold_ ^ term(tail_word(tail_, rest), length_ / 8);
  return hash64_finish(fold, length_);
}

std::string hex64(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t parse_hex64(std::string_view text, std::string_view what) {
  uint64_t value = 0;
  const bool digits = text.size() == 16 && std::all_of(text.begin(), text.end(), [&](char c) {
                        const bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
                        const int d = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
                        value = value << 4 | static_cast<uint64_t>(d & 15);
                        return ok;
                      });
  if (!digits) fail(ErrorKind::Parse, "{}: '{}' is not 16 hex digits", what, printable(text, 40));
  return value;
}

}  // namespace cortiq
