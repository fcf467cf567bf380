#include <nlohmann/json.hpp>

#include "convert/gguf/gguf.h"
#include "convert/safetensors.h"
#include "convert/source.h"

namespace cortiq::convert {
namespace {

constexpr uint64_t kMaxConfig = uint64_t{64} << 20;
constexpr uint64_t kMaxTokenizer = uint64_t{1} << 30;

std::optional<Json> maybe_json(const std::string& directory, const char* name, FileSystem& files) {
  const std::string path = join_path(directory, name);
  if (!files.exists(path)) return std::nullopt;
  return parse_json(files.read_all(path, kMaxConfig), path, {.depth = 256, .allow_bom = true});
}

std::string maybe_text(const std::string& directory, const char* name, uint64_t limit, FileSystem& files) {
  const std::string path = join_path(directory, name);
  return files.exists(path) ? files.read_all(path, limit) : std::string();
}

}  // namespace

Checkpoint open_huggingface(const std::string& path, FileSystem& files) {
  const std::string directory = files.info(path).directory ? path : directory_of(path);
  const std::string config = join_path(directory, "config.json");
  if (!files.exists(config)) fail(ErrorKind::Io, "{}: no config.json: not the directory of a model", directory);
  Checkpoint out;
  out.path = path;
  out.config_path = config;
  out.config = parse_json(files.read_all(config, kMaxConfig), config, {.depth = 256, .allow_bom = true});
  out.generation_config = maybe_json(directory, "generation_config.json", files);
  out.tokenizer_config = maybe_json(directory, "tokenizer_config.json", files);
  out.tokenizer_json = maybe_text(directory, "tokenizer.json", kMaxTokenizer, files);
  out.chat_template = maybe_text(directory, "chat_template.jinja", kMaxConfig, files);
  if (out.tokenizer_json.empty() && files.exists(join_path(directory, "tokenizer.model"))) {
    out.warnings.push_back(
        "there is a tokenizer.model but no tokenizer.json: save the tokenizer in the newer form first");
  }
  out.open_weights = open_safetensors;
  out.files = &files;
  return out;
}

Checkpoint open_checkpoint(const std::string& path, FileSystem& files) {
  return path.ends_with(".gguf") ? gguf::open(path, files) : open_huggingface(path, files);
}

}  // namespace cortiq::convert
