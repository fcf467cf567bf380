#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model.h"

namespace cortiq::engine {

/// Ids of plain text with the post-processor's template (decisions 10). Unsupported without a tokenizer.
text::Ids encode_text(const Model& model, std::string_view text);

/// A conversation rendered by the file's template with the generation prompt, encoded without special tokens, begun by
/// the post-processor's prefix where it is not there yet (decisions 10). Without a template: ChatML if the vocabulary
/// has its tokens, else Unsupported (decisions 11). `extra`: an object of further variables of the template
/// ({"tools": …}).
text::Ids encode_chat(const Model& model, const Json& messages, const Json* extra = nullptr);

/// The ids of a rendered conversation.
text::Ids encode_rendered(const Model& model, std::string_view text);

/// The rendering alone.
std::string render_chat(const Model& model, const Json& messages, bool generation_prompt, const Json* extra = nullptr);

/// [{"role":"user","content":text}], with a system message before it if there is one.
Json user_messages(std::string_view text, std::string_view system = {});

/// What `run -p TEXT` means: chat if the file has a template, otherwise completion.
text::Ids encode_prompt(const Model& model, std::string_view text, std::string_view system = {});

/// Text of an answer: end and special tokens left out (decisions 30).
std::string decode_answer(const Model& model, std::span<const uint32_t> ids);

}  // namespace cortiq::engine
