#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/piece_cache.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace cortiq::text {

/// The parts that a tokenizer.json names.
struct TokenizerParts {
  std::unique_ptr<Model> model;
  std::unique_ptr<Normalizer> normalizer;  ///< may be null
  PreTokenization pre_tokenization;
  PostProcessing post_processing;
  std::unique_ptr<Decoder> decoder;
  AddedTokens added;
  std::vector<std::string> notes;
};

/// The parts at work, in order.
class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(TokenizerParts parts);
  ~Pipeline() override;

  Ids encode(std::string_view text, bool special) const override;
  std::vector<Piece> encode_pieces(std::string_view text, bool special) const override;
  std::string decode(std::span<const uint32_t> ids, bool skip_special) const override;
  std::unique_ptr<TextDecoding> decoding(bool skip_special) const override;

  size_t size() const noexcept override;
  std::optional<uint32_t> id_of(std::string_view token) const override;
  std::optional<std::string> token_of(uint32_t id) const override;
  bool is_special(uint32_t id) const noexcept override;
  const Ids& prefix() const noexcept override { return parts_.post_processing.prefix; }
  const Ids& suffix() const noexcept override { return parts_.post_processing.suffix; }
  const std::vector<std::string>& notes() const noexcept override { return parts_.notes; }

  /// As token_of, without a copy.
  std::optional<std::string_view> token(uint32_t id) const noexcept;

 private:
  struct Scratch;
  struct Output {
    Ids* ids;
    std::vector<Piece>* pieces;  // or null
  };

  void run(std::string_view text, const Output& out) const;
  void run_stretch(std::string_view text, Span stretch, Scratch& scratch, const Output& out) const;
  void run_piece(std::string_view piece, Scratch& scratch) const;
  void tokenize_short(std::string_view piece, Scratch& scratch) const;
  void tokenize_new(std::string_view piece, Scratch& scratch) const;
  std::unique_ptr<Scratch> borrow() const;
  void give_back(std::unique_ptr<Scratch> scratch) const;

  TokenizerParts parts_;
  bool needs_origins_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> spare_;  // working memory of calls that are over
};

}  // namespace cortiq::text
