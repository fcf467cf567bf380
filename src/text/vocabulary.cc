#include "text/vocabulary.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace cortiq::text {

uint64_t hash_seed() noexcept {
  static const uint64_t seed = [] {
    std::random_device source;
    return uint64_t{source()} << 32 | source();
  }();
  return seed;
}

void Vocabulary::reserve(size_t count, size_t bytes) {
  if (entries_.empty()) {
    pool_.reserve(bytes);
    entries_.reserve(count);
  }
  size_t slots = 16;
  while (slots < count + count / 2) slots *= 2;
  if (slots > slots_.size()) resize(slots);
}

void Vocabulary::resize(size_t slots) {
  slots_.assign(slots, {});
  mask_ = slots - 1;
  for (uint32_t place = 0; place < entries_.size(); ++place) {
    const uint64_t hashed = hash(text_at(place));
    size_t at = hashed & mask_;
    while (slots_[at].place != kNone) at = (at + 1) & mask_;
    slots_[at] = {static_cast<uint32_t>(hashed >> 32), place};
  }
}

void Vocabulary::set(std::string_view token, uint32_t id, uint64_t hash) {
  if (id == kNone) fail(ErrorKind::Unsupported, "'{}': the id 4294967295 is not available", printable(token, 60));
  const size_t needed = entries_.size() + 1;
  if (slots_.size() < needed + needed / 2) resize(std::max<size_t>(slots_.size() * 2, 16));
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask_;
  for (; slots_[at].place != kNone; at = (at + 1) & mask_) {
    Entry& known = entries_[slots_[at].place];
    if (slots_[at].tag == tag && text(known) == token) {
      known.id = id;
      return;
    }
  }
  if (pool_.size() + token.size() > UINT32_MAX) fail(ErrorKind::Unsupported, "a vocabulary of more than 4 GiB");
  slots_[at] = {tag, static_cast<uint32_t>(entries_.size())};
  entries_.push_back({static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(token.size()), id});
  pool_.insert(pool_.end(), token.begin(), token.end());
}

void Vocabulary::index() {
  // Ids far beyond the number of tokens go to a map: an id costs no memory for those below it.
  const uint64_t limit = uint64_t{size()} * 4 + 1024;
  dense_.clear();
  sparse_.clear();
  id_end_ = 0;
  for (const Entry& entry : entries_) id_end_ = std::max(id_end_, uint64_t{entry.id} + 1);
  dense_.assign(static_cast<size_t>(std::min(id_end_, limit)), kNone);
  ids_unique_ = true;
  for (uint32_t place = 0; place < entries_.size(); ++place) {
    const uint32_t id = entries_[place].id;
    uint32_t& known = id < dense_.size() ? dense_[id] : sparse_.try_emplace(id, kNone).first->second;
    if (known != kNone) ids_unique_ = false;
    known = place;  // of two tokens with one id the later in the file is shown
  }
}

uint32_t Vocabulary::find_place(std::string_view token, uint64_t hash) const noexcept {
  if (slots_.empty()) return kNone;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask_; slots_[at].place != kNone; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && text_at(slots_[at].place) == token) return slots_[at].place;
  }
  return kNone;
}

std::optional<std::string_view> Vocabulary::token(uint32_t id) const noexcept {
  uint32_t place = kNone;
  if (id < dense_.size()) {
    place = dense_[id];
  } else if (!sparse_.empty()) {
    const auto found = sparse_.find(id);
    if (found != sparse_.end()) place = found->second;
  }
  if (place == kNone) return std::nullopt;
  return text_at(place);
}

}  // namespace cortiq::text
