#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace cortiq::text {

/// One token of a piece and how many of the piece's bytes it stands for.
struct Token {
  uint32_t id, length;
};

/// Working memory of a model, kept between calls.
struct ModelScratch {
  struct Symbol {
    uint32_t id, length;
    int32_t before, after;  // neighbours that are still alive, -1: none
  };
  struct Candidate {
    uint32_t rank, at, id;
  };
  struct Best {
    double score;
    uint32_t from, id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<Best> best;  // Unigram: the best segmentation up to each byte
  std::vector<Token> reversed;
};

/// Turns one piece (valid UTF-8, not empty) into tokens. Immutable.
class Model {
 public:
  virtual ~Model() = default;

  /// Appends the piece's tokens. Linear or n·log n in the piece. Parse if the model has no id for a part and no
  /// unknown token.
  virtual void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const = 0;

  /// The end of a first part of piece[from…] that can be tokenized by itself without changing a single id.
  virtual size_t independent_end(std::string_view piece, size_t from) const noexcept {
    static_cast<void>(from);
    return piece.size();
  }

  /// Token → id; token_of() is the way back.
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  virtual std::optional<std::string_view> token_of(uint32_t id) const noexcept { return vocabulary_.token(id); }
  /// How many tokens the model counts; added tokens that it lacks get ids from here on.
  virtual uint64_t size() const noexcept { return vocabulary_.size(); }
  /// One more than the largest id.
  virtual uint64_t id_end() const noexcept { return vocabulary_.id_end(); }
  /// Sentences for the user.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 protected:
  Vocabulary vocabulary_;
  std::vector<std::string> notes_;
};

}  // namespace cortiq::text
