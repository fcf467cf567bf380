#include "text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace cortiq::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Model& model, const Normalizer* normalizer,
                         std::vector<std::string>& notes) {
  std::optional<uint64_t> highest;
  for (AddedToken& token : tokens) {
    if (token.content.empty()) {
      notes.push_back(fmt::format("the added token with id {} is empty and is ignored", token.id));
      continue;
    }
    if (token.special) special_.insert(token.content);
    if (by_content_.contains(token.content)) continue;  // the first of several counts
    const uint32_t known = model.vocabulary().find(token.content);
    uint64_t id = known;
    if (known == Vocabulary::kNone) {
      const uint64_t size = model.size();
      id = !highest || (*highest < size && size != 0) ? size : *highest + 1;
      if (id >= Vocabulary::kNone)
        fail(ErrorKind::Unsupported, "added_tokens: no id is left for '{}'", printable(token.content, 60));
    }
    highest = std::max(highest.value_or(0), id);
    if (id != token.id) {
      notes.push_back(fmt::format("the added token '{}' has the id {}, not {} as the file says",
                                  printable(token.content, 60), id, token.id));
    }
    id_end_ = std::max(id_end_, id + 1);
    by_content_.emplace(token.content, static_cast<uint32_t>(id));
    by_id_[static_cast<uint32_t>(id)] = static_cast<uint32_t>(tokens_.size());
    ids_.push_back(static_cast<uint32_t>(id));
    tokens_.push_back(std::move(token));
  }
  // Of equal texts the first wins, special tokens before the others.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (special_.contains(token.content) != special) continue;
      AlignedText text;
      text.assign(token.content, {0, token.content.size()}, false);
      if (token.normalized && normalizer != nullptr) normalizer->apply(text);
      if (text.text().empty()) {
        fail(ErrorKind::Unsupported,
             "added_tokens: '{}' is searched in normalized text, but nothing of it is left there",
             printable(token.content, 60));
      }
      tries_[token.normalized ? 1 : 0].insert(text.text(), static_cast<uint32_t>(i), false);
    }
  }
}

void AddedTokens::split(std::string_view text, bool normalized, std::vector<Part>& out) const {
  const ByteTrie& trie = tries_[normalized ? 1 : 0];
  size_t done = 0;
  Span spaces;  // the white space that an rstrip went over last: matches inside it need not walk it again
  const auto add = [&](size_t begin, size_t end, std::optional<uint32_t> id) {
    if (begin < end) out.push_back({{begin, end}, id});
  };
  for (size_t at = 0; at < text.size();) {
    uint32_t node = trie.child(ByteTrie::kRoot, static_cast<unsigned char>(text[at])), found = ByteTrie::kNone;
    if (node == ByteTrie::kNone) {
      ++at;
      continue;
    }
    size_t end = at;
    for (size_t next = at + 1;; ++next) {
      if (trie.value(node) != ByteTrie::kNone) {
        found = trie.value(node);
        end = next;
      }
      if (next == text.size()) break;
      node = trie.child(node, static_cast<unsigned char>(text[next]));
      if (node == ByteTrie::kNone) break;
    }
    if (found == ByteTrie::kNone) {
      ++at;
      continue;
    }
    // The flags are those of the token that has the id now (two tokens may share one).
    const AddedToken& token = tokens_[by_id_.at(ids_[found])];
    size_t begin = at, stop = end;
    at = end;
    const auto word = [](CodeAt one) { return (traits(one.code) & kWord) != 0; };
    const auto space = [](CodeAt one) { return (traits(one.code) & kWhiteSpace) != 0; };
    if (token.single_word &&
        ((begin > 0 && word(code_before(text, begin))) || (stop < text.size() && word(code_at(text, stop))))) {
      continue;
    }
    // White space before it, but not what the token before has taken.
    while (token.lstrip && begin > done && space(code_before(text, begin))) begin -= code_before(text, begin).size;
    if (token.rstrip) {
      if (stop < spaces.begin || stop >= spaces.end) {
        spaces = {stop, stop};
        while (spaces.end < text.size() && space(code_at(text, spaces.end))) {
          spaces.end += code_at(text, spaces.end).size;
        }
      }
      stop = spaces.end;
    }
    if (done < begin) add(done, begin, std::nullopt);
    add(begin, stop, ids_[found]);
    done = stop;
  }
  add(done, text.size(), std::nullopt);
}

std::optional<uint32_t> AddedTokens::id_of(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* AddedTokens::content_of(uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second].content;
}

}  // namespace cortiq::text
