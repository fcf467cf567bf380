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
void add_special_tokens(const Model& model, Json& context) {
  const auto& chat = model.set().header().chat;
  if (!chat || !model.tokenizer()) return;
  const auto add = [&](const char* key, std::optional<uint32_t> id) {
    const std::optional<std::string> token = id ? model.tokenizer()->token_of(*id) : std::nullopt;
    if (token) context[key] = *token;
  };
  add("bos_token", chat->bos_token_id);
  add("pad_token", chat->pad_token_id);
  if (!chat->eos_token_ids.empty()) add("eos_token", chat->eos_token_ids.front());
}

// Templates expect the arguments of tool calls as an object; clients send them as a string (cases row 77).
Json with_parsed_arguments(const Json& messages) {
  Json result = messages;
  for (Json& message : result) {
    if (!message.is_object() || !message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) {
      if (!call.is_object()) continue;
      Json& target = call.contains("function") ? call["function"] : call;
      if (!target.is_object() || !target.contains("arguments") || !target["arguments"].is_string()) continue;
      const std::string text = target["arguments"].get<std::string>();
      try {
        Json parsed = parse_json(text, "arguments");
        if (parsed.is_object()) target["arguments"] = std::move(parsed);
      } catch (const Error&) {
        // Not JSON: the template gets the string as it is.
      }
    }
  }
  return result;
}

std::string chat_ml(const Model& model, const Json& messages, bool generation_prompt) {
  const text::Tokenizer& known = tokenizer(model);
  if (!known.id_of("<|im_start|>") || !known.id_of("<|im_end|>")) {
    fail(ErrorKind::Unsupported, "{} has no chat template and its vocabulary no ChatML tokens: use a plain prompt",
         model.set().first().path());
  }
  std::string text;
  for (const Json& message : messages) {
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
        !message.contains("content") || !message["content"].is_string()) {
      fail(ErrorKind::Usage, "a message without role or text cannot be written in ChatML");
    }
    text += "<|im_start|>" + message["role"].get<std::string>() + "\n" + message["content"].get<std::string>() +
            "<|im_end|>\n";
  }
  return generation_prompt ? text + "<|im_start|>assistant\n" : text;
}

}  // namespace

text::Ids encode_text(const Model& model, std::string_view text) { return tokenizer(model).encode(text, true); }

std::string render_chat(const Model& model, const Json& messages, bool generation_prompt, const Json* extra) {
  if (!messages.is_array()) fail(ErrorKind::Usage, "messages: an array is needed");
  if (!model.chat_template()) return chat_ml(model, messages, generation_prompt);
  Json context = Json::object();
  context["messages"] = with_parsed_arguments(messages);
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = generation_prompt;
  add_special_tokens(model, context);
  if (extra != nullptr) {
    for (const auto& [key, value] : extra->items()) context[key] = value;
  }
  return model.chat_template()->render(context);
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
