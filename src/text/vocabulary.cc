#include "text/vocabulary.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/huge_pages.h"

namespace cortiq::text {

uint64_t hash_seed() noexcept {
  static const uint64_t seed = [] {
    std::random_device source;
    return uint64_t{source()} << 32 | source();
  }();
  return seed;
}

void Vocabulary::reserve(size_t count, size_t bytes) {
  if (pool_.empty()) reserve_huge(pool_, bytes);
  size_t slots = 16;
  while (slots < count + count / 2) slots *= 2;
  if (slots > slots_.size()) resize(slots);
}

void Vocabulary::resize(size_t slots) {
  std::vector<Slot> old;
  reserve_huge(old, slots);
  old.resize(slots);
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    size_t at = hash(text(slot)) & mask_;
    while (slots_[at].id != kNone) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

void Vocabulary::set(std::string_view token, uint32_t id) {
  if (id == kNone) fail(ErrorKind::Unsupported, "'{}': the id 4294967295 is not available", printable(token, 60));
  if (slots_.size() < count_ + 1 + (count_ + 1) / 2) resize(std::max<size_t>(slots_.size() * 2, 16));
  const uint64_t hashed = hash(token);
  const auto tag = static_cast<uint32_t>(hashed >> 32);
  size_t at = hashed & mask_;
  for (; slots_[at].id != kNone; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && text(slots_[at]) == token) {
      slots_[at].id = id;
      return;
    }
  }
  if (pool_.size() + token.size() > UINT32_MAX) fail(ErrorKind::Unsupported, "a vocabulary of more than 4 GiB");
  slots_[at] = {tag, static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(token.size()), id};
  pool_.insert(pool_.end(), token.begin(), token.end());
  ++count_;
}

void Vocabulary::index() {
  // Ids far beyond the number of tokens go to a map: an id costs no memory for those below it.
  const uint64_t limit = count_ * 4 + 1024;
  dense_.clear();
  sparse_.clear();
  id_end_ = 0;
  for (const Slot& slot : slots_) {
    if (slot.id == kNone) continue;
    id_end_ = std::max(id_end_, uint64_t{slot.id} + 1);
  }
  dense_.assign(static_cast<size_t>(std::min(id_end_, limit)), kNone);
  ids_unique_ = true;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone) continue;
    uint32_t& place = slot.id < dense_.size() ? dense_[slot.id] : sparse_.try_emplace(slot.id, kNone).first->second;
    if (place != kNone) ids_unique_ = false;
    // Of two tokens with one id the later in the file is shown.
    if (place == kNone || slots_[place].offset < slot.offset) place = static_cast<uint32_t>(i);
  }
}

uint32_t Vocabulary::find(std::string_view token, uint64_t hash) const noexcept {
  if (slots_.empty()) return kNone;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask_; slots_[at].id != kNone; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && text(slots_[at]) == token) return slots_[at].id;
  }
  return kNone;
}

std::optional<std::string_view> Vocabulary::token(uint32_t id) const noexcept {
  uint32_t at = kNone;
  if (id < dense_.size()) {
    at = dense_[id];
  } else if (!sparse_.empty()) {
    const auto found = sparse_.find(id);
    if (found != sparse_.end()) at = found->second;
  }
  if (at == kNone) return std::nullopt;
  return text(slots_[at]);
}

}  // namespace cortiq::text
