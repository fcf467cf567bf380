#pragma once
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cortiq::text {

/// A chat template with Hugging Face's settings: immutable sandbox, trim_blocks, lstrip_blocks, loop controls,
/// {% generation %}, tojson in their dialect, raise_exception, strftime_now. Immutable; safe from several threads.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  /// Parse, with line and column, if the source is not a template.
  static std::shared_ptr<const ChatTemplate> parse(std::string_view source, std::string_view what);

  /// Renders with `context` as the template's variables (an absent key is undefined, null is none, order kept). Errors
  /// of the template (raise_exception, wrong types, undefined attributes, an exhausted budget) are Parse with the
  /// template's own message. `now`: the clock of strftime_now as local broken-down time; absent: the system's.
  virtual std::string render(const Json& context, const std::optional<std::tm>& now = std::nullopt) const = 0;

  /// Whether message content may be a list of parts: the template takes them apart itself.
  virtual bool takes_parts() const noexcept = 0;
};

/// Texts of the special tokens by Hugging Face's names: "bos_token" → "<s>". What a model lacks is left out.
using SpecialTokens = std::map<std::string, std::string>;

/// The template variables of a chat, as Hugging Face's apply_chat_template sets them. `request` is an object in
/// OpenAI's form: `messages`, optionally `tools`, `documents`, `add_generation_prompt` (default true), and any further
/// variable
/// (`enable_thinking` …), which is handed on. Tool-call arguments that are the text of a JSON object become that
/// object; a list of text parts is joined by newlines if the template wants a string. Parse for messages of another
/// form, Unsupported for content that is not text.
Json chat_context(const ChatTemplate& chat_template, const Json& request, const SpecialTokens& special_tokens);

/// The prompt of a chat. With `continue_final_message` in the request it ends with the last message's text, so that the
/// model goes on with it (then no generation prompt is added; both at once are Usage).
std::string render_chat(const ChatTemplate& chat_template, const Json& request, const SpecialTokens& special_tokens,
                        const std::optional<std::tm>& now = std::nullopt);

/// The prompt of a chat for a model without a template: ChatML, if `in_vocabulary` knows its tokens, else Unsupported.
/// Tools cannot be said in it: Unsupported.
std::string render_chatml(const Json& request, const std::function<bool(std::string_view token)>& in_vocabulary);

/// "2024-07-26T14:05:09" → broken-down time; Usage if malformed.
std::tm parse_clock(std::string_view iso8601);

}  // namespace cortiq::text
