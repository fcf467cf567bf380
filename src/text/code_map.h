#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cortiq::text {

constexpr char32_t kLastCode = 0x10FFFF;

struct CodeRange {
  char32_t first, last;  ///< inclusive
};

/// Sorted, disjoint ranges.
using CodeSet = std::vector<CodeRange>;

/// From here to the next segment (or the end) the value is the same.
template <class T>
struct CodeSegment {
  char32_t first;
  T value;
};

/// A value for every code point: two table reads, equal blocks of 128 stored once.
template <class T>
class CodeMap {
 public:
  CodeMap() = default;

  /// Segments ascending, the first at 0.
  explicit CodeMap(const std::vector<CodeSegment<T>>& segments) {
    std::unordered_map<std::string_view, uint16_t> known;  // keys point into made, which never grows past its reserve
    constexpr size_t kBlocks = (kLastCode + 1) / kBlock;
    std::vector<std::array<T, kBlock>> made;
    made.reserve(kBlocks);
    std::unordered_map<T, uint16_t> uniform;
    index_.resize(kBlocks);
    size_t at = 0;
    const auto end_of = [&](size_t i) { return i + 1 < segments.size() ? segments[i + 1].first : kLastCode + 1; };
    for (size_t block = 0; block < kBlocks; ++block) {
      const auto first = static_cast<char32_t>(block * kBlock), after = static_cast<char32_t>(first + kBlock);
      while (end_of(at) <= first) ++at;
      const bool same = end_of(at) >= after;
      if (same) {
        const auto found = uniform.find(segments[at].value);
        if (found != uniform.end()) {
          index_[block] = found->second;
          continue;
        }
      }
      made.emplace_back();
      size_t i = at;
      for (char32_t c = first; c < after; ++c) {
        while (end_of(i) <= c) ++i;
        made.back()[c - first] = segments[i].value;
      }
      const std::string_view key(reinterpret_cast<const char*>(made.back().data()), sizeof(made.back()));
      const auto [entry, fresh] = known.try_emplace(key, static_cast<uint16_t>(made.size() - 1));
      if (!fresh) made.pop_back();
      if (same) uniform.emplace(segments[at].value, entry->second);
      index_[block] = entry->second;
    }
    values_.resize(made.size() * kBlock);
    std::memcpy(values_.data(), made.data(), values_.size() * sizeof(T));
  }

  /// c must be a code point.
  T operator[](char32_t c) const noexcept { return values_[size_t{index_[c / kBlock]} * kBlock + c % kBlock]; }

 private:
  static constexpr size_t kBlock = 128;
  std::vector<uint16_t> index_;
  std::vector<T> values_;
};

/// Segments of "which of these sets hold the code point", bit i for sets[i]; at most 64 sets.
inline std::vector<CodeSegment<uint64_t>> membership(const std::vector<const CodeSet*>& sets) {
  struct Flip {
    char32_t at;
    uint64_t bit;
  };
  std::vector<Flip> flips;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const CodeRange& range : *sets[i]) {
      flips.push_back({range.first, uint64_t{1} << i});
      flips.push_back({range.last + 1, uint64_t{1} << i});
    }
  }
  std::sort(flips.begin(), flips.end(), [](const Flip& a, const Flip& b) { return a.at < b.at; });
  std::vector<CodeSegment<uint64_t>> out = {{0, 0}};
  for (const Flip& flip : flips) {
    if (flip.at > kLastCode) break;
    if (out.back().first != flip.at) out.push_back({flip.at, out.back().value});
    out.back().value ^= flip.bit;
  }
  return out;
}

}  // namespace cortiq::text
