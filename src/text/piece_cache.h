#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/model.h"
#include "text/string_hash.h"

namespace cortiq::text {

/// The tokens of short pieces seen before. Forgets everything when it is full.
class PieceCache {
 public:
  static constexpr size_t kLongest = 256;  ///< bytes of a piece worth remembering

  uint64_t hash(std::string_view piece) const noexcept { return hash_string(piece, seed_); }

  /// The tokens of a piece, none if it is not there. Valid until the next insert().
  std::span<const Token> find(std::string_view piece, uint64_t hash) const noexcept {
    for (size_t at = hash & (kSlots - 1); !slots_.empty() && slots_[at].length != 0; at = (at + 1) & (kSlots - 1)) {
      const Slot& slot = slots_[at];
      if (slot.hash == hash && std::string_view(texts_).substr(slot.text, slot.length) == piece) {
        return {tokens_.data() + slot.token, slot.count};
      }
    }
    return {};
  }

  /// A piece of 1 to kLongest bytes that is not there, with at least one token.
  void insert(std::string_view piece, uint64_t hash, std::span<const Token> tokens) {
    if (slots_.empty()) slots_.resize(kSlots);
    if (used_ >= kSlots / 2 || tokens_.size() > kMaxTokens) clear();
    size_t at = hash & (kSlots - 1);
    while (slots_[at].length != 0) at = (at + 1) & (kSlots - 1);
    slots_[at] = {hash, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(tokens_.size()),
                  static_cast<uint16_t>(piece.size()), static_cast<uint16_t>(tokens.size())};
    texts_.append(piece);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    ++used_;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15, kMaxTokens = size_t{1} << 19;
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0, token = 0;
    uint16_t length = 0, count = 0;
  };

  void clear() {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    texts_.clear();
    tokens_.clear();
    used_ = 0;
  }

  uint64_t seed_ = hash_seed();
  std::vector<Slot> slots_;
  std::string texts_;
  std::vector<Token> tokens_;
  size_t used_ = 0;
};

}  // namespace cortiq::text
