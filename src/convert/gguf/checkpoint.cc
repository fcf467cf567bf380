#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "convert/gguf/gguf.h"
#include "convert/gguf/tokenizer.h"

namespace cortiq::convert::gguf {
namespace {

constexpr uint64_t kMaxParts = 10'000;

// "NAME-00002-of-00003.gguf": the names of all parts in order, or nothing if the name has no such end.
std::vector<std::string> part_names(const std::string& path, uint64_t parts) {
  const std::string ending = fmt::format("-of-{:05}.gguf", parts);
  if (!path.ends_with(ending) || path.size() < ending.size() + 6) return {};
  const std::string stem = path.substr(0, path.size() - ending.size() - 5);
  if (stem.empty() || stem.back() != '-') return {};
  std::vector<std::string> out;
  for (uint64_t part = 1; part <= parts; ++part) out.push_back(fmt::format("{}{:05}{}", stem, part, ending));
  return out;
}

void check_part(const File& file, uint64_t index, uint64_t parts) {
  if (file.count("split.no").value_or(0) != index || file.count("split.count").value_or(0) != parts) {
    fail(ErrorKind::Parse, "{}: is not part {} of {}: it says part {} of {}", file.path(), index + 1, parts,
         file.count("split.no").value_or(0) + 1, file.count("split.count").value_or(0));
  }
}

std::vector<File> open_parts(const std::string& path, FileSystem& files) {
  std::vector<File> out;
  File first = File::open(path, files);
  const uint64_t parts = first.count("split.count").value_or(1);
  if (parts <= 1) {
    out.push_back(std::move(first));
    return out;
  }
  if (parts > kMaxParts) fail(ErrorKind::Parse, "{}: 'split.count' is {}", path, parts);
  const std::vector<std::string> names = part_names(path, parts);
  if (names.empty()) {
    fail(ErrorKind::Parse, "{}: part of a model in {} files, but not called NAME-00001-of-{:05}.gguf", path, parts,
         parts);
  }
  uint64_t tensors = 0;
  for (uint64_t i = 0; i < parts; ++i) {
    out.push_back(File::open(names[i], files));
    check_part(out.back(), i, parts);
    tensors += out.back().tensors().size();
  }
  if (const auto total = out.front().count("split.tensors.count"); total && *total != tensors) {
    fail(ErrorKind::Parse, "{}: the parts hold {} tensors together, the first one says {}", names[0], tensors, *total);
  }
  return out;
}

const Tensor* find_tensor(const std::vector<File>& files, std::string_view name, size_t& file) {
  for (file = 0; file < files.size(); ++file) {
    for (const Tensor& one : files[file].tensors()) {
      if (one.name == name) return &one;
    }
  }
  return nullptr;
}

std::vector<float> rotary_factors(const std::vector<File>& files) {
  size_t file = 0;
  const Tensor* tensor = find_tensor(files, "rope_freqs.weight", file);
  if (tensor == nullptr) return {};
  if (tensor->type->name != "F32" || tensor->shape.size() != 1) {
    fail(ErrorKind::Unsupported, "rope_freqs.weight is {}: a vector of F32 expected", tensor->type->name);
  }
  std::vector<float> out(tensor->elements);
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = files[file].mapping().bytes().read<float>(tensor->offset + 4 * i);
  return out;
}

std::string text_of(const std::vector<uint64_t>& shape) {
  std::string out;
  for (const uint64_t size : shape) out += (out.empty() ? "" : ", ") + std::to_string(size);
  return "[" + out + "]";
}

// All weights under their new names, with the shapes that the metadata asks for.
std::vector<GgufSource::Stored> stored_tensors(const std::vector<File>& files, const Architecture& architecture,
                                               const Sizes& sizes) {
  std::vector<GgufSource::Stored> out;
  std::unordered_set<std::string> names;
  for (size_t f = 0; f < files.size(); ++f) {
    for (const Tensor& from : files[f].tensors()) {
      const Named named = name_tensor(from.name, architecture, sizes);
      if (named.shape != from.shape) {
        fail(ErrorKind::Parse, "tensor '{}' has shape {}, the metadata asks for {}", printable(from.name, 80),
             text_of(from.shape), text_of(named.shape));
      }
      if (named.name.empty()) continue;
      if (!names.insert(named.name).second) {
        fail(ErrorKind::Parse, "tensor '{}' stands in two parts", printable(from.name, 80));
      }
      SourceTensor tensor{named.name,  std::string(from.type->name), from.shape, from.nbytes,
                          from.offset, static_cast<uint32_t>(f)};
      out.push_back({std::move(tensor), from.type, named.heads, named.one_plus});
    }
  }
  return out;
}

void take_vocabulary(const File& file, Checkpoint& out) {
  Vocabulary vocabulary = read_vocabulary(file);
  out.tokenizer_json = std::move(vocabulary.tokenizer_json);
  Json generation = Json::object(), tokenizer = Json::object();
  generation["eos_token_id"] = vocabulary.eos;
  if (vocabulary.bos) {
    generation["bos_token_id"] = *vocabulary.bos;
    tokenizer["bos_token"] = vocabulary.tokens[*vocabulary.bos];
  }
  if (vocabulary.pad) generation["pad_token_id"] = *vocabulary.pad;
  if (vocabulary.chat_template) tokenizer["chat_template"] = *vocabulary.chat_template;
  out.generation_config = std::move(generation);
  out.tokenizer_config = std::move(tokenizer);
}

}  // namespace

Checkpoint open(const std::string& path, FileSystem& files) {
  std::vector<File> parts = open_parts(path, files);
  const File& first = parts.front();
  Checkpoint out;
  out.path = path;
  out.format = "gguf";
  out.files = &files;
  out.config_path = first.path();
  const bool any = std::any_of(parts.begin(), parts.end(), [](const File& one) { return !one.tensors().empty(); });
  if (!any) {
    out.config_path += ": holds a vocabulary and no tensors";
    take_vocabulary(first, out);
    return out;
  }
  with_context(first.path(), [&] {
    const Architecture& architecture = find_architecture(first);
    size_t file = 0;
    const Tensor* embedding = find_tensor(parts, "token_embd.weight", file);
    if (embedding == nullptr) fail(ErrorKind::Parse, "tensor 'token_embd.weight' is missing");
    uint64_t tensors = 0;
    for (const File& one : parts) tensors += one.tensors().size();
    const Sizes sizes = read_sizes(first, architecture, embedding->shape.front(), tensors);
    const bool tied = find_tensor(parts, "output.weight", file) == nullptr;
    out.config = make_config(first, architecture, sizes, tied, rotary_factors(parts));
    std::vector<GgufSource::Stored> stored = stored_tensors(parts, architecture, sizes);
    if (first.has("tokenizer.ggml.model")) {
      take_vocabulary(first, out);
    } else {
      out.warnings.push_back("the file has no tokenizer: prompts must be token ids");
    }
    out.source = std::make_shared<GgufSource>(std::move(parts), std::move(stored));
  });
  return out;
}

}  // namespace cortiq::convert::gguf
