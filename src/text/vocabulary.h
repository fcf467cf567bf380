#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/huge_pages.h"
#include "text/string_hash.h"

namespace cortiq::text {

/// Tokens and their ids, both ways. The texts lie in one pool; ids may be sparse.
class Vocabulary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Makes room for a number of tokens with so many bytes of text.
  void reserve(size_t count, size_t bytes);

  /// Sets the id of a token; one that is there already gets the new id.
  void set(std::string_view token, uint32_t id) { set(token, id, hash(token)); }
  void set(std::string_view token, uint32_t id, uint64_t hash);

  /// Sets many tokens, whose memory is fetched side by side. The texts must stay until finish().
  class Filler;

  /// To be called once after the last set(): makes token() work.
  void index();

  size_t size() const noexcept { return entries_.size(); }
  /// One more than the largest id; 0 if there is none.
  uint64_t id_end() const noexcept { return id_end_; }
  /// True if no two tokens have the same id.
  bool ids_unique() const noexcept { return ids_unique_; }

  uint32_t find(std::string_view token) const noexcept { return find(token, hash(token)); }
  uint32_t find(std::string_view token, uint64_t hash) const noexcept {
    const uint32_t place = find_place(token, hash);
    return place == kNone ? kNone : entries_[place].id;
  }

  // Tokens by their places: 0 … size() in the order of the first set(); kNone where there is none.
  uint32_t find_place(std::string_view token, uint64_t hash) const noexcept;
  std::string_view text_at(size_t place) const noexcept { return text(entries_[place]); }
  uint32_t id_at(size_t place) const noexcept { return entries_[place].id; }

  // The steps of a search, so that a caller with many tokens can have their memory fetched ahead.
  uint64_t hash(std::string_view token) const noexcept { return hash_string(token, seed_); }
  void prefetch(uint64_t hash) const noexcept {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & mask_]);
  }
  void prefetch_entry(uint64_t hash) const noexcept {
    if (const Entry* entry = first_entry(hash)) __builtin_prefetch(entry);
  }
  void prefetch_text(uint64_t hash) const noexcept {
    if (const Entry* entry = first_entry(hash)) __builtin_prefetch(pool_.data() + entry->offset);
  }

  /// The token with an id, or nothing.
  std::optional<std::string_view> token(uint32_t id) const noexcept;

  /// Calls visit(token, id) for every token.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_) visit(text(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t offset, length, id;
  };
  struct Slot {
    uint32_t tag = 0, place = kNone;
  };
  std::string_view text(const Entry& entry) const noexcept { return {pool_.data() + entry.offset, entry.length}; }
  const Entry* first_entry(uint64_t hash) const noexcept {
    if (slots_.empty()) return nullptr;
    const uint32_t place = slots_[hash & mask_].place;
    return place == kNone ? nullptr : &entries_[place];
  }
  void resize(size_t slots);

  uint64_t seed_ = hash_seed();
  HugeVector<char> pool_;
  HugeVector<Entry> entries_;
  HugeVector<Slot> slots_;
  size_t mask_ = 0;
  uint64_t id_end_ = 0;
  bool ids_unique_ = true;
  std::vector<uint32_t> dense_;                    // id → place, for ids below a few times the number of tokens
  std::unordered_map<uint32_t, uint32_t> sparse_;  // the others
};

class Vocabulary::Filler {
 public:
  explicit Filler(Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void add(std::string_view text, uint32_t id) {
    waiting_[count_++] = {text, id, 0};
    if (count_ == kTogether) finish();
  }
  void finish() {
    const std::span<Token> waiting(waiting_.data(), std::exchange(count_, 0));
    for (Token& token : waiting) {
      token.hash = vocabulary_.hash(token.text);
      vocabulary_.prefetch(token.hash);
    }
    for (const Token& token : waiting) vocabulary_.set(token.text, token.id, token.hash);
  }

 private:
  static constexpr size_t kTogether = 64;
  struct Token {
    std::string_view text;
    uint32_t id;
    uint64_t hash;
  };

  Vocabulary& vocabulary_;
  std::array<Token, kTogether> waiting_{};
  size_t count_ = 0;
};

}  // namespace cortiq::text
