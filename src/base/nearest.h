#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cortiq {

/// The name that the fewest insertions, deletions and replacements turn into `text`: what an error proposes for a name
/// that is not known. The first of equals; empty if no name takes fewer than `limit` changes. Meant for words, not for
/// long texts.
inline std::string_view nearest(std::string_view text, std::span<const std::string_view> names,
                                size_t limit = SIZE_MAX) {
  std::string_view best;
  size_t least = limit;
  text = text.substr(0, 64);
  std::vector<size_t> row(text.size() + 1);
  for (const std::string_view name : names) {
    for (size_t i = 0; i <= text.size(); ++i) row[i] = i;
    for (size_t j = 1; j <= name.size(); ++j) {
      size_t diagonal = row[0];
      row[0] = j;
      for (size_t i = 1; i <= text.size(); ++i) {
        const size_t replaced = diagonal + (text[i - 1] == name[j - 1] ? 0 : 1);
        diagonal = row[i];
        row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
      }
    }
    if (row[text.size()] < least) {
      least = row[text.size()];
      best = name;
    }
  }
  return best;
}

}  // namespace cortiq
