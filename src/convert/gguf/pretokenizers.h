#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace cortiq::convert::gguf {

/// What a name under tokenizer.ggml.pre stands for.
struct PreTokenizer {
  bool nfc = false;            ///< normalised to NFC before
  bool ignore_merges = false;  ///< a whole word that is a token is taken as it is
  bool add_bos = false;        ///< where the file does not say
  std::string json = {};       ///< the pre_tokenizer of a tokenizer.json
};

/// By its name or an alias; nothing for a name that is not known.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name);

}  // namespace cortiq::convert::gguf
