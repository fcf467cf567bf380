#include "cli/load_text.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_system.h"
#include "base/json.h"
#include "cli/terminal.h"
#include "cmf/file.h"
#include "convert/source.h"

namespace cortiq::cli {
namespace {

bool is_directory(const std::string& path) {
  FileSystem& files = FileSystem::real();
  return files.exists(path) && files.info(path).directory;
}

}  // namespace

std::shared_ptr<const text::Tokenizer> load_tokenizer(const std::string& path) {
  FileSystem& files = FileSystem::real();
  if (path.ends_with(".cmf")) {
    const auto set = cmf::FileSet::open(path);
    const std::string_view json = set->first().tokenizer_json();
    if (json.empty()) fail(ErrorKind::Unsupported, "{}: holds no tokenizer", path);
    return text::Tokenizer::parse(json, path);
  }
  if (path.ends_with(".gguf")) return text::Tokenizer::parse(convert::open_checkpoint(path).tokenizer_json, path);
  const std::string file = is_directory(path) ? join_path(path, "tokenizer.json") : path;
  return text::Tokenizer::parse(files.read_all(file), file);
}

std::optional<uint64_t> vocabulary_rows(const std::string& path) {
  if (!path.ends_with(".cmf")) return std::nullopt;
  return cmf::FileSet::open(path)->header().arch.vocab_size;
}

std::string load_template_source(const std::string& path) {
  FileSystem& files = FileSystem::real();
  if (path.ends_with(".cmf")) {
    const auto set = cmf::FileSet::open(path);
    const auto& chat = set->header().chat;
    if (!chat || !chat->chat_template) fail(ErrorKind::Unsupported, "{}: holds no chat template", path);
    return *chat->chat_template;
  }
  if (is_directory(path)) {
    const std::string jinja = join_path(path, "chat_template.jinja");
    if (files.exists(jinja)) return files.read_all(jinja);
    return load_template_source(join_path(path, "tokenizer_config.json"));
  }
  const std::string content = files.read_all(path);
  if (!path.ends_with(".json")) return content;
  const Json config = parse_json(content, path, {.depth = 256, .allow_bom = true});
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (!config.is_object() || found == config.end()) fail(ErrorKind::Unsupported, "{}: holds no chat_template", path);
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {  // named templates: the one called default, else the first
    const Json* chosen = nullptr;
    for (const Json& one : *found) {
      if (!one.is_object() || !one.contains("template") || !one["template"].is_string()) continue;
      if (chosen == nullptr || one.value("name", "") == "default") chosen = &one;
    }
    if (chosen != nullptr) return (*chosen)["template"].get<std::string>();
  }
  fail(ErrorKind::Parse, "{}: chat_template is neither a text nor a list of named templates", path);
}

void for_each_line(FunctionRef<void(const std::string&)> body) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (!line.empty()) body(line);
    if (std::ferror(stdout) != 0) fail(ErrorKind::Io, "standard output: could not be written");
  }
  interruption().check();  // a signal ends the wait like the end of the input
}

}  // namespace cortiq::cli
