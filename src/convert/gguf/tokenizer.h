#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/gguf/file.h"

namespace cortiq::convert::gguf {

/// The tokenizer of a GGUF file as a tokenizer.json that gives the same ids, and what belongs to it.
struct Vocabulary {
  std::string tokenizer_json;
  std::vector<std::string_view> tokens;
  std::optional<uint32_t> bos, pad;
  std::vector<uint32_t> eos;  ///< end of text, of turn, of message: those that the file names
  std::optional<std::string> chat_template;
};

/// Byte-level ("gpt2") and SentencePiece ("llama") vocabularies; other models and unknown pre-tokenizers are
/// Unsupported by name. Parse for lists that disagree, ids outside them, and texts that stand twice.
Vocabulary read_vocabulary(const File& file);

}  // namespace cortiq::convert::gguf
