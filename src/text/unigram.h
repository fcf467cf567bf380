#pragma once
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/byte_trie.h"
#include "text/model.h"

namespace cortiq::text {

/// The segmentation of highest probability (Viterbi, f64, left to right).
class Unigram final : public Model {
 public:
  /// Collects the pieces while the file is read; ids are positions. Of equal pieces the last counts.
  struct Pieces {
    Vocabulary vocabulary;
    std::vector<double> scores;
    std::unordered_map<uint32_t, std::string> shadowed;  ///< the earlier ones, which an id still names
    void add(std::string_view piece, double score);
  };
  /// Parse if there are no pieces or `unknown` is not one.
  Unigram(Pieces pieces, std::optional<uint32_t> unknown, bool byte_fallback, const std::string& where);

  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;
  uint64_t size() const noexcept override { return scores_.size(); }
  uint64_t id_end() const noexcept override { return scores_.size(); }
  std::optional<std::string_view> token_of(uint32_t id) const noexcept override;

 private:
  void append(std::string_view text, std::vector<Token>& out) const;
  uint32_t unknown_id(std::string_view text) const;

  std::vector<double> scores_;
  std::unordered_map<uint32_t, std::string> shadowed_;
  ByteTrie trie_;
  std::optional<uint32_t> unknown_;
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
  std::array<uint32_t, 256> bytes_{};
};

}  // namespace cortiq::text
