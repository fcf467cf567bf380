#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/function_ref.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace cortiq::cli {

/// The tokenizer of a .cmf, a .gguf, a directory with a tokenizer.json, or a tokenizer.json itself.
std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::string& path);

/// Rows of a .cmf's embedding, which bound its ids; nothing for other paths.
std::optional<uint64_t> vocabulary_rows(const std::string& path);

/// The template source of a .cmf, a directory, a tokenizer_config.json or a .jinja file; Unsupported if there is none.
std::string load_template_source(const std::string& path);

/// Calls body for every line of standard input that is not empty.
void for_each_line(FunctionRef<void(const std::string&)> body);

}  // namespace cortiq::cli
