#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat.h"
#include "text/jinja/strings.h"

namespace cortiq::text {
namespace {

bool flag(const Json& request, const char* name, bool otherwise) {
  const auto found = request.find(name);
  if (found == request.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) fail(ErrorKind::Parse, "'{}' must be true or false, not {}", name, found->dump());
  return found->get<bool>();
}

const Json& messages_of(const Json& request) {
  if (!request.is_object()) fail(ErrorKind::Parse, "a chat must be a JSON object with 'messages'");
  const auto found = request.find("messages");
  if (found == request.end() || !found->is_array()) fail(ErrorKind::Parse, "a chat needs 'messages', a list");
  for (size_t i = 0; i < found->size(); ++i) {
    const Json& message = (*found)[i];
    const bool good = message.is_object() && message.contains("role") && message["role"].is_string();
    if (!good) fail(ErrorKind::Parse, "message {} must be an object with a 'role'", i);
  }
  return *found;
}

// OpenAI sends arguments as text, templates are written for objects; text that is no object stays what it is.
void parse_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    Json& function = call.contains("function") && call["function"].is_object() ? call["function"] : call;
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    try {
      Json parsed = parse_json(arguments->get_ref<const std::string&>(), "arguments");
      if (parsed.is_object()) *arguments = std::move(parsed);
    } catch (const Error&) {
      continue;
    }
  }
}

std::string_view part_text(const Json& part, size_t index) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) {
    fail(ErrorKind::Parse, "message {}: a content part must be an object with a 'type'", index);
  }
  const auto& type = part["type"].get_ref<const std::string&>();
  if (type != "text") {
    fail(ErrorKind::Unsupported, "message {}: content of type '{}': only text is supported", index,
         printable(type, 40));
  }
  if (!part.contains("text") || !part["text"].is_string()) {
    fail(ErrorKind::Parse, "message {}: a text part needs 'text', a string", index);
  }
  return part["text"].get_ref<const std::string&>();
}

std::string joined_parts(const Json& parts, size_t index) {
  std::string text;
  for (const Json& part : parts) {
    if (!text.empty()) text += '\n';
    text += part_text(part, index);
  }
  return text;
}

// The text that a continued prompt has to end with.
std::string final_text(const Json& messages) {
  if (messages.empty()) fail(ErrorKind::Usage, "continue_final_message needs a message to continue");
  const Json& message = messages.back();
  if (message.contains("content") && message["content"].is_string()) return message["content"].get<std::string>();
  if (message.contains("content") && message["content"].is_array() && !message["content"].empty()) {
    return std::string(part_text(message["content"].back(), messages.size() - 1));
  }
  fail(ErrorKind::Usage, "continue_final_message: the last message has no text to continue");
}

bool continues(const Json& request) {
  if (!flag(request, "continue_final_message", false)) return false;
  const auto prompt = request.find("add_generation_prompt");
  if (prompt != request.end() && *prompt == true) {
    fail(ErrorKind::Usage, "continue_final_message and add_generation_prompt exclude each other");
  }
  return true;
}

// Cuts the prompt behind the last occurrence of the text; white space around it may have been trimmed by the template.
std::string cut_behind(std::string prompt, const std::string& text) {
  const std::string_view bare = jinja::strip(text, {}, true, true), tail = jinja::strip(text, {}, true, false);
  const size_t at = prompt.rfind(bare);
  if (at == prompt.npos) {
    fail(ErrorKind::Parse,
         "continue_final_message: the last message does not appear in the prompt; the template changes it");
  }
  const bool kept = std::string_view(prompt).substr(at, tail.size()) == text;
  prompt.resize(at + (kept ? tail.size() : bare.size()));
  return prompt;
}

}  // namespace

Json chat_context(const ChatTemplate& chat_template, const Json& request, const SpecialTokens& special_tokens) {
  Json messages = messages_of(request);
  for (size_t i = 0; i < messages.size(); ++i) {
    parse_arguments(messages[i]);
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    std::string joined = joined_parts(*content, i);
    if (!chat_template.takes_parts()) *content = std::move(joined);
  }
  Json context = Json::object();
  for (const auto& [name, text] : special_tokens) context[name] = text;
  context["messages"] = std::move(messages);
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = !continues(request);
  for (const auto& [name, value] : request.items()) {
    if (name == "continue_final_message" || name == "messages") continue;
    context[name] = value;
  }
  return context;
}

std::string render_chat(const ChatTemplate& chat_template, const Json& request, const SpecialTokens& special_tokens,
                        const std::optional<std::tm>& now) {
  const Json context = chat_context(chat_template, request, special_tokens);
  std::string prompt = chat_template.render(context, now);
  return continues(request) ? cut_behind(std::move(prompt), final_text(context["messages"])) : prompt;
}

std::string render_chatml(const Json& request, const std::function<bool(std::string_view token)>& in_vocabulary) {
  const Json& messages = messages_of(request);
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    if (in_vocabulary(token)) continue;
    fail(ErrorKind::Unsupported, "the model has no chat template and its vocabulary no '{}': use it for completion",
         token);
  }
  if (request.contains("tools") && !request["tools"].empty()) {
    fail(ErrorKind::Unsupported, "the model has no chat template, so it cannot be told of tools");
  }
  const bool continued = continues(request);
  std::string prompt;
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (message.contains("tool_calls") && !message["tool_calls"].empty()) {
      fail(ErrorKind::Unsupported, "message {}: the model has no chat template, so tool calls cannot be said", i);
    }
    const Json content = message.contains("content") ? message["content"] : Json();
    const bool good = content.is_string() || content.is_array() || content.is_null();
    if (!good) fail(ErrorKind::Parse, "message {}: 'content' must be a string or a list of parts", i);
    prompt += "<|im_start|>" + message["role"].get<std::string>() + "\n";
    prompt += content.is_string() ? content.get<std::string>() : content.is_array() ? joined_parts(content, i) : "";
    if (continued && i + 1 == messages.size()) return prompt;
    prompt += "<|im_end|>\n";
  }
  if (flag(request, "add_generation_prompt", true)) prompt += "<|im_start|>assistant\n";
  return prompt;
}

}  // namespace cortiq::text
