#pragma once
#include <cstdint>
#include <utility>

#include "base/huge_pages.h"
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
  explicit MergeTable(HugeVector<Entry> merges) : merges_(std::move(merges)) {
    size_t size = 16;
    while (size < merges_.size() * 2) size *= 2;
    slots_.assign(size, kFree);
    mask_ = size - 1;
    constexpr size_t kAhead = 16;
    for (size_t i = 0; i < merges_.size(); ++i) {
      if (i + kAhead < merges_.size()) __builtin_prefetch(&slots_[home(merges_[i + kAhead])], 1);
      size_t at = home(merges_[i]);
      while (slots_[at] != kFree && !same_pair(merges_[slots_[at]], merges_[i])) at = (at + 1) & mask_;
      slots_[at] = static_cast<uint32_t>(i);
    }
  }

  Merge find(uint32_t left, uint32_t right) const noexcept {
    if (slots_.empty()) return kNone;
    const Entry pair = {left, right, 0};
    for (size_t at = home(pair); slots_[at] != kFree; at = (at + 1) & mask_) {
      const Entry& merge = merges_[slots_[at]];
      if (same_pair(merge, pair)) return {slots_[at], merge.id};
    }
    return kNone;
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static bool same_pair(const Entry& a, const Entry& b) noexcept { return a.left == b.left && a.right == b.right; }
  size_t home(const Entry& pair) const noexcept {
    return mix((uint64_t{pair.left} << 32 | pair.right) ^ seed_, 0x9E3779B97F4A7C15) & mask_;
  }

  uint64_t seed_ = hash_seed();
  HugeVector<Entry> merges_;
  HugeVector<uint32_t> slots_;  // a merge's place in the list
  size_t mask_ = 0;
};

}  // namespace cortiq::text
