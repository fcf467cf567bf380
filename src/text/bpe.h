#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/merge_table.h"
#include "text/model.h"

namespace cortiq::text {

/// Byte-pair encoding: characters, then always the merge of lowest rank, the leftmost first.
class Bpe final : public Model {
 public:
  struct Settings {
    std::optional<std::string> unknown;
    std::string prefix, suffix;  ///< continuing_subword_prefix, end_of_word_suffix
    bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
  };
  /// Merges as ids, and which characters one of them joins, as a hashed set of bits.
  struct Merges {
    HugeVector<MergeTable::Entry> entries;
    std::vector<uint64_t> joints;
    void append(const Merges& next);  ///< those that follow in the list
  };
  /// Collects merges while the file is read. The texts must stay until finish().
  class MergeReader {
   public:
    /// About `count` merges are to come, from place `first` of the list on.
    MergeReader(const Vocabulary& vocabulary, size_t prefix, size_t count, std::string where, size_t first);
    /// Parse if a part or the result is not in the vocabulary.
    void add(std::string_view left, std::string_view right);
    Merges finish();

   private:
    friend class Bpe;
    static constexpr size_t kTogether = 64;  // merges looked up so that their memory is fetched side by side
    struct Pending {
      std::string_view left, right;
      uint32_t result = Vocabulary::kNone;  // its place in the vocabulary where that is known
    };
    struct Lookup {
      std::string_view text;
      uint64_t hash = 0;
      uint32_t place = Vocabulary::kNone;
    };
    bool is_next(std::string_view left, std::string_view rest) const noexcept;
    void look_up(std::span<Lookup> lookups) const;
    void flush();

    const Vocabulary& vocabulary_;
    size_t prefix_;
    std::string where_;
    size_t first_;
    std::vector<Pending> pending_;
    std::array<Lookup, 3 * kTogether> lookups_;
    std::string results_;       // texts of pending results whose places are not known
    uint32_t next_result_ = 0;  // the place where the next result is expected
    Merges merges_;
  };

  /// The vocabulary must be indexed.
  Bpe(Vocabulary vocabulary, Merges merges, Settings settings);

  void tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const override;
  size_t independent_end(std::string_view piece, size_t from) const noexcept override;

 private:
  using Symbol = ModelScratch::Symbol;

  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  std::string_view spelling(std::string_view piece, size_t at, size_t size, std::string& buffer) const;
  void merge_short(std::vector<Symbol>& symbols) const;
  void merge_long(ModelScratch& scratch) const;

  Settings settings_;
  uint32_t unknown_ = Vocabulary::kNone;
  MergeTable merges_;
  std::vector<uint32_t> characters_;   // ids of the characters below U+10000
  std::array<uint32_t, 256> bytes_{};  // ids of <0xNN>
  std::vector<uint64_t> joints_;       // which characters a merge can join, as a hashed bit set; empty: no cutting
};

}  // namespace cortiq::text
