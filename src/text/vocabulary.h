#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/string_hash.h"

namespace cortiq::text {

/// Tokens and their ids, both ways. The texts lie in one pool; ids may be sparse.
class Vocabulary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Makes room for a number of tokens with so many bytes of text.
  void reserve(size_t count, size_t bytes);

  /// Sets the id of a token; one that is there already gets the new id.
  void set(std::string_view token, uint32_t id);

  /// To be called once after the last set(): makes token() work.
  void index();

  size_t size() const noexcept { return count_; }
  /// One more than the largest id; 0 if there is none.
  uint64_t id_end() const noexcept { return id_end_; }
  /// True if no two tokens have the same id.
  bool ids_unique() const noexcept { return ids_unique_; }

  uint32_t find(std::string_view token) const noexcept { return find(token, hash(token)); }

  // The steps of find(), so that a caller with many tokens can have their memory fetched ahead.
  uint64_t hash(std::string_view token) const noexcept { return hash_string(token, seed_); }
  void prefetch(uint64_t hash) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & mask_]);
  }
  void prefetch_text(uint64_t hash) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(pool_.data() + slots_[hash & mask_].offset);
  }
  uint32_t find(std::string_view token, uint64_t hash) const noexcept;

  /// The token with an id, or nothing.
  std::optional<std::string_view> token(uint32_t id) const noexcept;

  /// Calls visit(token, id) for every token.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.id != kNone) visit(text(slot), slot.id);
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0, offset = 0, length = 0, id = kNone;
  };
  std::string_view text(const Slot& slot) const noexcept { return {pool_.data() + slot.offset, slot.length}; }
  void resize(size_t slots);

  uint64_t seed_ = hash_seed();
  std::vector<char> pool_;
  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
  uint64_t id_end_ = 0;
  bool ids_unique_ = true;
  std::vector<uint32_t> dense_;                    // id → slot, for ids below a few times the number of tokens
  std::unordered_map<uint32_t, uint32_t> sparse_;  // the others
};

}  // namespace cortiq::text
