#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cortiq {

/// The name that the fewest insertions, deletions, replacements and swaps of neighbours turn into `text`: what an error
/// proposes for a name that is not known. The first of equals; empty if no name takes fewer than `limit` changes. Meant
/// for words, not for long texts.
inline std::string_view nearest(std::string_view text, std::span<const std::string_view> names,
                                size_t limit = SIZE_MAX) {
  std::string_view best;
  size_t least = limit;
  text = text.substr(0, 64);
  // Distances between the beginnings of both, for the last two and the present length of the name's.
  std::vector<size_t> before(text.size() + 1), last(text.size() + 1), row(text.size() + 1);
  for (const std::string_view name : names) {
    for (size_t i = 0; i <= text.size(); ++i) row[i] = i;
    for (size_t j = 1; j <= name.size(); ++j) {
      before.swap(last);
      last.swap(row);
      row[0] = j;
      for (size_t i = 1; i <= text.size(); ++i) {
        row[i] = std::min({last[i - 1] + (text[i - 1] == name[j - 1] ? 0 : 1), last[i] + 1, row[i - 1] + 1});
        const bool swapped = i > 1 && j > 1 && text[i - 1] == name[j - 2] && text[i - 2] == name[j - 1];
        if (swapped) row[i] = std::min(row[i], before[i - 2] + 1);
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
