#include "text/word_models.h"

#include <utility>

#include "base/error.h"

namespace cortiq::text {
namespace {

Token unknown_token(const Vocabulary& vocabulary, std::string_view unknown, std::string_view piece) {
  const uint32_t id = vocabulary.find(unknown);
  if (id == Vocabulary::kNone) {
    fail(ErrorKind::Parse, "the tokenizer has no token for '{}' and its unknown token '{}' is not in the vocabulary",
         printable(piece, 60), printable(unknown, 60));
  }
  return {id, static_cast<uint32_t>(piece.size())};
}

uint64_t count_characters(std::string_view text) {
  uint64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, Settings settings) : settings_(std::move(settings)) {
  vocabulary_ = std::move(vocabulary);
  vocabulary_.for_each([&](std::string_view token, uint32_t id) {
    if (!token.empty()) trie_.insert(token, id, true);
  });
  continuing_ = trie_.find(settings_.prefix);
}

void WordPiece::tokenize(std::string_view piece, ModelScratch&, std::vector<Token>& out) const {
  const size_t before = out.size();
  bool known = count_characters(piece) <= settings_.max_characters;
  for (size_t at = 0; known && at < piece.size();) {
    uint32_t node = at == 0 ? ByteTrie::kRoot : continuing_;
    size_t length = 0;
    uint32_t id = ByteTrie::kNone;
    for (size_t end = at; node != ByteTrie::kNone && end < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[end++]));
      if (node != ByteTrie::kNone && trie_.value(node) != ByteTrie::kNone) {
        id = trie_.value(node);
        length = end - at;
      }
    }
    known = length > 0;
    if (known) out.push_back({id, static_cast<uint32_t>(length)});
    at += length;
  }
  if (known) return;
  out.resize(before);
  out.push_back(unknown_token(vocabulary_, settings_.unknown, piece));
}

WordLevel::WordLevel(Vocabulary vocabulary, std::string unknown) : unknown_(std::move(unknown)) {
  vocabulary_ = std::move(vocabulary);
}

void WordLevel::tokenize(std::string_view piece, ModelScratch&, std::vector<Token>& out) const {
  const uint32_t id = vocabulary_.find(piece);
  out.push_back(id != Vocabulary::kNone ? Token{id, static_cast<uint32_t>(piece.size())}
                                        : unknown_token(vocabulary_, unknown_, piece));
}

}  // namespace cortiq::text
