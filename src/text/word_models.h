#pragma once
#include <string>

#include "text/byte_trie.h"
#include "text/model.h"

namespace cortiq::text {

/// Greedy longest match from the left; all parts but the first carry a prefix. One failure makes the piece unknown.
class WordPiece final : public Model {
 public:
  struct Settings {
    std::string unknown, prefix;
    uint64_t max_characters = 100;  ///< longer pieces are unknown
  };
  WordPiece(Vocabulary vocabulary, Settings settings);
  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  Settings settings_;
  ByteTrie trie_;
  uint32_t continuing_;  // node of the prefix
};

/// Whole pieces only.
class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown);
  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;

 private:
  std::string unknown_;
};

}  // namespace cortiq::text
