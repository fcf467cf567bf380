#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::text {

using Ids = std::vector<uint32_t>;

/// One piece of an encoded text: its id and the bytes [begin, end) of the original text that it stands for.
struct Piece {
  uint32_t id;
  size_t begin, end;
};

/// One text on its way from ids to bytes; what later ids may still change is held back.
class TextDecoding {
 public:
  virtual ~TextDecoding() = default;
  virtual void push(uint32_t id, std::string& out) = 0;  ///< appends whole characters
  virtual void finish(std::string& out) = 0;             ///< appends the rest; nothing may follow
};

/// A tokenizer.json (Hugging Face), whole: added tokens → normalizer → pre-tokenizer → model → post-processor, and the
/// decoder back. Immutable and safe to use from several threads. Whatever the file asks for is executed exactly or
/// refused at load; nothing is approximated (models/tokenizers/FACTS.md of the shared facts says what exactly is).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Parses the bytes of a tokenizer.json; `what` names the file in errors. Unsupported, naming type and path
  /// ("/pre_tokenizer/pretokenizers/1: type 'Foo'"), for a component that is not known; Parse for a broken file.
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, std::string_view what);

  /// Ids of a text; with `special`, the post-processor's template for a single text is applied. Invalid UTF-8 is
  /// replaced by U+FFFD first. Linear in the text. Parse if the model has no id for a part and no unknown token.
  virtual Ids encode(std::string_view text, bool special) const = 0;

  /// As encode, with the bytes of the text each id stands for (special tokens that were added: empty ranges).
  virtual std::vector<Piece> encode_pieces(std::string_view text, bool special) const = 0;

  /// Text of ids; ids without a token contribute nothing. Always valid UTF-8.
  virtual std::string decode(std::span<const uint32_t> ids, bool skip_special) const = 0;
  /// The same, id by id; must not outlive the tokenizer. See StreamDecoder.
  virtual std::unique_ptr<TextDecoding> decoding(bool skip_special) const = 0;

  /// One more than the largest id.
  virtual size_t size() const noexcept = 0;
  virtual std::optional<uint32_t> id_of(std::string_view token) const = 0;
  /// The token as the vocabulary spells it (byte-level alphabet, ▁ and all).
  virtual std::optional<std::string> token_of(uint32_t id) const = 0;
  virtual bool is_special(uint32_t id) const noexcept = 0;

  /// What the post-processor puts before and after a single text.
  virtual const Ids& prefix() const noexcept = 0;
  virtual const Ids& suffix() const noexcept = 0;

  /// Sentences for the user: ignored truncation, ids that differ from the file's, an empty merge table…
  virtual const std::vector<std::string>& notes() const noexcept = 0;
};

/// Decodes ids one at a time: the concatenation of everything returned equals decode() of all ids, and no returned
/// part ends inside a UTF-8 sequence.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  std::string push(uint32_t id);
  /// What was held back; the next push() begins a new text.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::unique_ptr<TextDecoding> decoding_;
};

}  // namespace cortiq::text
