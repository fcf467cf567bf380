#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "codec/rows.h"

// How q1s and q1t pick the weights that they keep whole.
namespace cortiq::codec {

/// The number of outliers for a fraction: f32(n)·keep in single precision, halves away from zero, at most n.
inline uint64_t outlier_count(uint64_t n, float keep) {
  const float wish = std::round(static_cast<float>(n) * keep);
  return wish >= static_cast<float>(n) ? n : static_cast<uint64_t>(wish);
}

struct Cut {
  uint32_t key = UINT32_MAX;  ///< the k-th largest key
  uint64_t greater = 0;       ///< how many keys are larger than it
};

/// The k-th largest (1 ≤ k ≤ n) of the keys key(0) … key(n-1), all below 2^31, found by counting: two passes, no copy.
template <class Key>
Cut kth_largest(uint64_t n, uint64_t k, ThreadPool& pool, Key key) {
  constexpr uint32_t kLow = 15;  // upper 16 bits first, then the lower 15
  std::mutex lock;
  std::vector<uint64_t> count;
  const auto histogram = [&](size_t bins, auto bin) {
    count.assign(bins, 0);
    for_checked_blocks(n, 1, pool, [&](uint64_t first, uint64_t last) {
      std::vector<uint32_t> own(bins);
      for (uint64_t i = first; i < last; ++i) {
        if (const uint32_t b = bin(key(i)); b < bins) ++own[b];
      }
      const std::lock_guard guard(lock);
      for (size_t b = 0; b < bins; ++b) count[b] += own[b];
    });
  };
  uint64_t greater = 0;
  const auto walk_down = [&] {
    size_t b = count.size() - 1;
    while (greater + count[b] < k) greater += count[b--];
    return static_cast<uint32_t>(b);
  };
  histogram(size_t{1} << 16, [](uint32_t value) { return value >> kLow; });
  const uint32_t high = walk_down();
  histogram(size_t{1} << kLow,
            [high](uint32_t value) { return value >> kLow == high ? value & ((1u << kLow) - 1) : UINT32_MAX; });
  const uint32_t low = walk_down();
  return {high << kLow | low, greater};
}

inline uint32_t magnitude_bits(float value) noexcept { return std::bit_cast<uint32_t>(value) & 0x7FFFFFFF; }

}  // namespace cortiq::codec
