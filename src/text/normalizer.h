#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "text/aligned_text.h"

namespace cortiq::text {

/// Changes a stretch of text before it is cut into pieces. Immutable.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// The normalizer that a tokenizer.json asks for at `path`; Unsupported if its type is not known.
std::unique_ptr<Normalizer> parse_normalizer(const Json& json, const std::string& path);

/// NFC, NFD, NFKC, NFKD (normal_form.cc).
std::unique_ptr<Normalizer> make_normal_form(bool compatibility, bool composed);

/// Precompiled (precompiled.cc): a charsmap in base64.
std::unique_ptr<Normalizer> make_precompiled(const std::string& charsmap, const std::string& path);

}  // namespace cortiq::text
