#pragma once
#include <cstdint>
#include <vector>

#include "text/string_hash.h"

namespace cortiq::text {

/// Pairs of ids → what they merge into, and how early.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank, id;
  };
  struct Entry {
    uint32_t left, right, id;  // its place in the list is its rank
  };
  static constexpr Merge kNone = {UINT32_MAX, UINT32_MAX};

  MergeTable() = default;

  /// Of equal pairs the last counts, as it does in the genuine library's map.
  explicit MergeTable(const std::vector<Entry>& merges) {
    size_t size = 16;
    while (size < merges.size() * 2) size *= 2;
    slots_.resize(size);
    mask_ = size - 1;
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < merges.size(); ++i) {
      if (i + kAhead < merges.size()) {
        __builtin_prefetch(&slots_[home(key_of(merges[i + kAhead].left, merges[i + kAhead].right))], 1);
      }
      const uint64_t key = key_of(merges[i].left, merges[i].right);
      size_t at = home(key);
      while (slots_[at].merge.rank != kNone.rank && slots_[at].key != key) at = (at + 1) & mask_;
      slots_[at] = {key, {static_cast<uint32_t>(i), merges[i].id}};
    }
  }

  bool empty() const noexcept { return slots_.empty(); }

  Merge find(uint32_t left, uint32_t right) const noexcept {
    const uint64_t key = key_of(left, right);
    for (size_t at = home(key); slots_[at].merge.rank != kNone.rank; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
    }
    return kNone;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge = kNone;
  };
  static uint64_t key_of(uint32_t left, uint32_t right) noexcept { return uint64_t{left} << 32 | right; }
  size_t home(uint64_t key) const noexcept { return mix(key ^ seed_, 0x9E3779B97F4A7C15) & mask_; }

  uint64_t seed_ = hash_seed();
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace cortiq::text
