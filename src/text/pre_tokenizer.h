#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/aligned_text.h"

namespace cortiq::text {

/// A stretch of text and the pieces it has been cut into so far, none empty; what lies between pieces is gone.
struct Pieces {
  AlignedText text;
  std::vector<Span> spans, spare;
};

/// Cuts pieces further, or rewrites the text. Immutable.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  /// True if it needs to know where in the original a piece begins.
  virtual bool needs_origins() const noexcept { return false; }
};

/// The pre-tokenizers of a tokenizer.json in order. A final ByteLevel's mapping of bytes to its alphabet is not done
/// here but left to the last step (byte_level), piece by piece, so that known pieces are never mapped.
struct PreTokenization {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool byte_level = false;
};

/// Unsupported, naming type and path, for what is not known.
PreTokenization parse_pre_tokenizer(const Json& json, const std::string& path);

}  // namespace cortiq::text
