#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cortiq::text {

/// A piece of the text of one token on its way through the decoders. Fused tokens come in many parts, all others in
/// one. Parts end at character borders.
struct TokenPart {
  std::string text;
  bool begins = true, ends = true;  ///< of its token
};

/// One decoder at work: takes parts, gives parts, holds back what later ones may still change. Streaming is the only
/// way of decoding, so that a text decoded bit by bit equals the whole.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void push(TokenPart part, std::vector<TokenPart>& out) = 0;
  /// The end of the text; called once.
  virtual void finish(std::vector<TokenPart>& out) = 0;
};

/// A decoder of a tokenizer.json: makes the steps for one text. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void add_steps(std::vector<std::unique_ptr<DecoderStep>>& steps) const = 0;
};

/// What decodes where a file asks for nothing: tokens joined by spaces.
std::unique_ptr<Decoder> make_joining_decoder();

/// Unsupported, naming type and path, for what is not known.
std::unique_ptr<Decoder> parse_decoder(const Json& json, const std::string& path);

}  // namespace cortiq::text
