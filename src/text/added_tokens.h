#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/aligned_text.h"
#include "text/byte_trie.h"
#include "text/model.h"
#include "text/normalizer.h"

namespace cortiq::text {

struct AddedToken {
  uint64_t id = 0;  ///< as the file says; the id that counts may differ
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

/// Tokens that are found in the text before the model sees it.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// Ids as the genuine library gives them: the model's for a content that it has, else from its size on; a note for
  /// each that differs from the file's.
  AddedTokens(std::vector<AddedToken> tokens, const Model& model, const Normalizer* normalizer,
              std::vector<std::string>& notes);

  /// A stretch of text: a token's, or what lies between them.
  struct Part {
    Span span;
    std::optional<uint32_t> id;
  };
  /// Cuts a text at the tokens that are searched before (`normalized` false) or after normalization. Leftmost match,
  /// longest of those that start there. Appends no empty part.
  void split(std::string_view text, bool normalized, std::vector<Part>& out) const;
  bool any(bool normalized) const noexcept { return !tries_[normalized ? 1 : 0].empty(); }

  std::optional<uint32_t> id_of(std::string_view content) const;
  const std::string* content_of(uint32_t id) const;
  bool special(std::string_view content) const noexcept { return special_.contains(content); }
  /// One more than the largest id.
  uint64_t id_end() const noexcept { return id_end_; }

 private:
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const noexcept { return hash_string(text, hash_seed()); }
  };

  std::vector<AddedToken> tokens_;
  std::vector<uint32_t> ids_;
  ByteTrie tries_[2];
  std::unordered_map<std::string, uint32_t, TextHash, std::equal_to<>> by_content_;
  std::unordered_map<uint32_t, uint32_t> by_id_;  // id → index of the token that has it last
  std::unordered_set<std::string, TextHash, std::equal_to<>> special_;
  uint64_t id_end_ = 0;
};

}  // namespace cortiq::text
