#pragma once
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/huge_pages.h"
#include "text/vocabulary.h"

namespace cortiq::text {

/// The two parts of a merge as the file spells them.
struct MergeText {
  std::string_view left, right;
};

/// Splits "left right"; false unless there is exactly one space.
inline bool split_merge(std::string_view line, MergeText& out) {
  const size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos) return false;
  out = {line.substr(0, space), line.substr(space + 1)};
  return true;
}

/// Vocabulary and merges are nearly all of a tokenizer.json and always look alike; a pass over their text that fills
/// the tables takes a third of what a JSON document of them takes.
struct LargeMembers {
  Vocabulary vocabulary;  ///< of /model/vocab, an object; not indexed yet
  std::optional<HugeVector<MergeText>> merges;
  std::string rest;                   ///< the file with {} and [] in their places, unchecked otherwise
  std::deque<std::string> unescaped;  ///< what views into the file cannot show
};

/// Nothing if the file, which must be UTF-8, is spelled in any way that is not the usual one: then a JSON parser has to
/// read the whole and to say what is wrong, if anything is.
std::optional<LargeMembers> read_large_members(std::string_view json);

}  // namespace cortiq::text
