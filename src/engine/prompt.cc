#include "engine/prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cortiq::engine {

namespace {

const text::Tokenizer& tokenizer(const Model& model) {
  if (!model.tokenizer()) {
    fail(ErrorKind::Unsupported, "{} holds no tokenizer: give ids instead of text", model.set().first().path());
  }
  return *model.tokenizer();
}

// What templates may print of the special tokens: the header's ids, spelled by the vocabulary.
text::SpecialTokens special_tokens(const Model& model) {
  text::SpecialTokens tokens;
  const auto& chat = model.set().header().chat;
  if (!chat || !model.tokenizer()) return tokens;
  const auto add = [&](const char* key, std::optional<uint32_t> id) {
    const std::optional<std::string> token = id ? model.tokenizer()->token_of(*id) : std::nullopt;
    if (token) tokens[key] = *token;
  };
  add("bos_token", chat->bos_token_id);
  add("pad_token", chat->pad_token_id);
  if (!chat->eos_token_ids.empty()) add("eos_token", chat->eos_token_ids.front());
  return tokens;
}

}  // namespace

text::Ids encode_text(const Model& model, std::string_view text) { return tokenizer(model).encode(text, true); }

std::string render_chat(const Model& model, const Json& messages, bool generation_prompt, const Json* extra) {
  Json request = extra != nullptr ? *extra : Json::object();
  request["messages"] = messages;
  request["add_generation_prompt"] = generation_prompt;
  return with_context(model.set().first().path(), [&] {
    if (model.chat_template()) return text::render_chat(*model.chat_template(), request, special_tokens(model));
    return text::render_chatml(request,
                               [&](std::string_view token) { return tokenizer(model).id_of(token).has_value(); });
  });
}

text::Ids encode_chat(const Model& model, const Json& messages, const Json* extra) {
  return encode_rendered(model, render_chat(model, messages, true, extra));
}

text::Ids encode_rendered(const Model& model, std::string_view text) {
  const text::Tokenizer& known = tokenizer(model);
  text::Ids ids = known.encode(text, false);
  // decisions 10: a tokenizer whose single texts begin with a token wants it here too, once.
  const text::Ids& prefix = known.prefix();
  if (!prefix.empty() && (ids.empty() || ids.front() != prefix.front())) {
    ids.insert(ids.begin(), prefix.begin(), prefix.end());
  }
  return ids;
}

Json user_messages(std::string_view text, std::string_view system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back(Json{{"role", "system"}, {"content", std::string(system)}});
  messages.push_back(Json{{"role", "user"}, {"content", std::string(text)}});
  return messages;
}

text::Ids encode_prompt(const Model& model, std::string_view text, std::string_view system) {
  if (model.chat_template()) return encode_chat(model, user_messages(text, system));
  if (!system.empty()) {
    fail(ErrorKind::Usage, "{} has no chat template: a system message has no place in a completion",
         model.set().first().path());
  }
  return encode_text(model, text);
}

std::string decode_answer(const Model& model, std::span<const uint32_t> ids) {
  text::Ids kept;
  for (const uint32_t id : ids) {
    if (!model.is_stop(id)) kept.push_back(id);
  }
  return tokenizer(model).decode(kept, true);
}

}  // namespace cortiq::engine
