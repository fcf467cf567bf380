#include "convert/chat_bundle.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/chat.h"
#include "text/tokenizer.h"

namespace cortiq::convert {
namespace {

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

class Builder {
 public:
  Builder(const Checkpoint& checkpoint, const Described& model, uint64_t rows, std::vector<std::string>& notes,
          std::vector<std::string>& warnings)
      : checkpoint_(checkpoint), model_(model), rows_(rows), notes_(notes), warnings_(warnings) {}

  cmf::ChatBundle build() {
    open_tokenizer();
    choose_template();
    end_ids();
    out_.bos_token_id = single("bos_token_id", model_.bos);
    out_.pad_token_id = single("pad_token_id", model_.pad);
    return std::move(out_);
  }

 private:
  std::optional<Config> file(const std::optional<Json>& json, std::string_view name) const {
    if (!json) return std::nullopt;
    if (!json->is_object()) fail(ErrorKind::Parse, "{}: an object expected", name);
    return Config(*json, nullptr, fmt::format("{}: ", name));
  }

  void open_tokenizer() {
    if (checkpoint_.tokenizer_json.empty()) {
      warnings_.push_back("no tokenizer.json: the file will have no tokenizer, prompts must be token ids");
      return;
    }
    try {
      tokenizer_ = text::Tokenizer::parse(checkpoint_.tokenizer_json, "tokenizer.json");
    } catch (const Error& error) {
      warnings_.push_back(fmt::format("the tokenizer is stored but cannot be used here: {}", error.what()));
      return;
    }
    if (tokenizer_->size() > rows_) {
      warnings_.push_back(fmt::format("the tokenizer has ids up to {}, the embedding {} rows: ids beyond it are errors",
                                      tokenizer_->size() - 1, rows_));
    }
  }

  // The side file wins over the string; of a list the one called "default" is taken (cases row 47).
  void choose_template() {
    if (!blank(checkpoint_.chat_template)) {
      out_.chat_template = checkpoint_.chat_template;
    } else {
      if (!checkpoint_.chat_template.empty()) notes_.push_back("chat_template.jinja is blank and counts as absent");
      from_tokenizer_config();
    }
    if (!out_.chat_template) {
      notes_.push_back("no chat template");
      return;
    }
    try {
      text::ChatTemplate::parse(*out_.chat_template, "chat_template");
    } catch (const Error& error) {
      warnings_.push_back(fmt::format("the chat template is stored but cannot be used: {}", error.what()));
    }
  }

  void from_tokenizer_config() {
    const auto config = file(checkpoint_.tokenizer_config, "tokenizer_config.json");
    if (!config || !config->has("chat_template")) return;
    const Json& value = *config->find("chat_template");
    if (value.is_string()) {
      if (!blank(value.get_ref<const std::string&>())) out_.chat_template = value.get<std::string>();
      return;
    }
    if (!value.is_array()) config->malformed("chat_template", "a string or a list of named templates");
    std::string others;
    const Json* chosen = nullptr;
    for (const Json& one : value) {
      if (!one.is_object() || !one.contains("name") || !one["name"].is_string() || !one.contains("template") ||
          !one["template"].is_string()) {
        config->malformed("chat_template", "a list of {name, template}");
      }
      if (!chosen || (one["name"] == "default" && (*chosen)["name"] != "default")) chosen = &one;
    }
    for (const Json& one : value) {
      if (&one != chosen) others += (others.empty() ? "" : ", ") + printable(one["name"].get<std::string>(), 40);
    }
    if (!chosen) return;
    out_.chat_template = (*chosen)["template"].get<std::string>();
    if (!others.empty()) {
      notes_.push_back(fmt::format("of the named chat templates '{}' is taken, left out: {}",
                                   printable((*chosen)["name"].get<std::string>(), 40), others));
    }
  }

  void end_ids() {
    std::vector<uint32_t>& ids = out_.eos_token_ids;
    ids = model_.eos;
    if (const auto generation = file(checkpoint_.generation_config, "generation_config.json")) {
      for (const uint32_t id : generation->ids("eos_token_id")) ids.push_back(id);
    }
    if (const auto config = file(checkpoint_.tokenizer_config, "tokenizer_config.json")) {
      if (const auto id = id_of_token(*config, "eos_token")) ids.push_back(*id);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const uint32_t id : ids) {
      if (id >= rows_) {
        fail(
            ErrorKind::Parse,
            "eos_token_id {} lies outside the {} rows of the embedding (config, generation_config or tokenizer_config)",
            id, rows_);
      }
    }
  }

  // A token as tokenizer_config spells it: a string or an object with its content.
  std::optional<uint32_t> id_of_token(const Config& config, std::string_view key) const {
    if (!config.has(key)) return std::nullopt;
    const Json* value = config.find(key);
    if (value->is_object() && value->contains("content")) value = &(*value)["content"];
    if (!value->is_string()) config.malformed(key, "a token");
    return tokenizer_ ? tokenizer_->id_of(value->get<std::string>()) : std::nullopt;
  }

  std::optional<uint32_t> single(std::string_view key, std::optional<uint32_t> fallback) {
    std::optional<uint32_t> id = fallback;
    if (const auto generation = file(checkpoint_.generation_config, "generation_config.json")) {
      if (const auto ids = generation->ids(key); !ids.empty()) id = ids.front();
    }
    if (id && *id >= rows_) {
      warnings_.push_back(
          fmt::format("{} {} lies outside the {} rows of the embedding and is left out", key, *id, rows_));
      id.reset();
    }
    return id;
  }

  const Checkpoint& checkpoint_;
  const Described& model_;
  uint64_t rows_;
  std::vector<std::string>& notes_;
  std::vector<std::string>& warnings_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  cmf::ChatBundle out_;
};

}  // namespace

cmf::ChatBundle chat_bundle(const Checkpoint& checkpoint, const Described& model, uint64_t rows,
                            std::vector<std::string>& notes, std::vector<std::string>& warnings) {
  return Builder(checkpoint, model, rows, notes, warnings).build();
}

Json write_chat_bundle(const cmf::ChatBundle& bundle) {
  if (!bundle.chat_template && bundle.eos_token_ids.empty() && !bundle.bos_token_id && !bundle.pad_token_id)
    return nullptr;
  Json out = Json::object();
  if (bundle.chat_template) out["chat_template"] = *bundle.chat_template;
  out["eos_token_ids"] = bundle.eos_token_ids;
  if (bundle.bos_token_id) out["bos_token_id"] = *bundle.bos_token_id;
  if (bundle.pad_token_id) out["pad_token_id"] = *bundle.pad_token_id;
  return out;
}

}  // namespace cortiq::convert
