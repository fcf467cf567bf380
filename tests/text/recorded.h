#pragma once
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/tokenizer.h"

// Reads the recorded tokenizers of tests/data/text/tokenizers (and of ../shared, whose licences keep them out of here).
namespace cortiq::text::recorded {

namespace fs = std::filesystem;

inline fs::path data_folder() { return fs::path(CORTIQ_TEST_DATA) / "text"; }
inline fs::path own_folder() { return data_folder() / "tokenizers"; }
inline fs::path shared_folder() { return fs::path(CORTIQ_SOURCE_DIR).parent_path() / "shared"; }

inline std::string read_plain(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The content of a file, or of the same name with .gz.
inline std::string read(const fs::path& path) {
  if (fs::exists(path)) return read_plain(path);
  const fs::path packed = path.string() + ".gz";
  if (!fs::exists(packed)) throw std::runtime_error("cannot read " + path.string());
  const std::string command = "gzip -dc '" + packed.string() + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string out;
  char buffer[1 << 16];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe.get())) out.append(buffer, count);
  return out;
}

inline std::vector<Json> read_lines(const fs::path& path) {
  const std::string all = read(path);
  std::vector<Json> out;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    if (end > at)
      out.push_back(
          Json::parse(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end)));
    at = end + 1;
  }
  return out;
}

/// The text of a folder's tokenizer.json; a variant is applied to its base.
inline std::string definition(const fs::path& folder) {
  if (!fs::exists(folder / "variant.json")) return read(folder / "tokenizer.json");
  // Not Json: its objects keep the order of their keys and look each up one by one, which takes a vocabulary's square.
  using Object = nlohmann::json;
  const Object change = Object::parse(read(folder / "variant.json"));
  Object base = Object::parse(definition(folder.parent_path() / change["base"].get<std::string>()));
  const auto replace = [&](const char* members, Object& target) {
    if (!change.contains(members)) return;
    for (const auto& [key, value] : change[members].items()) target[key] = value;
  };
  replace("set", base);
  replace("set_model", base["model"]);
  return base.dump();
}

/// A tokenizer by folder, parsed once per process.
inline std::shared_ptr<const Tokenizer> load(const fs::path& folder) {
  static std::map<std::string, std::weak_ptr<const Tokenizer>> known;
  auto& slot = known[folder.string()];
  auto tokenizer = slot.lock();
  if (tokenizer == nullptr) {
    tokenizer = Tokenizer::parse(definition(folder), folder.filename().string());
    slot = tokenizer;
  }
  return tokenizer;
}

inline std::vector<std::string> folders_in(const fs::path& root) {
  std::vector<std::string> out;
  if (!fs::exists(root)) return out;
  for (const auto& entry : fs::directory_iterator(root)) {
    const bool recorded = fs::exists(entry.path() / "expected.jsonl") || fs::exists(entry.path() / "expected.jsonl.gz");
    if (recorded) out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Row {
  std::string text;
  bool fails = false;
  Ids ids, special;
  std::string decoded, decoded_skipped, special_decoded, special_skipped;
};

inline std::vector<Row> rows(const fs::path& folder) {
  const std::vector<Json> lines = read_lines(folder / "expected.jsonl");
  const Json& head = lines.at(0);
  std::vector<Json> texts = read_lines(folder.parent_path() / head["strings"].get<std::string>());
  for (Json& own : read_lines(folder / "own_strings.jsonl")) texts.push_back(std::move(own));
  if (texts.size() + 1 != lines.size()) throw std::runtime_error(folder.string() + ": the recording has other inputs");
  std::vector<Row> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Json& line = lines[i + 1];
    Row row;
    row.text = texts[i].get<std::string>();
    row.fails = line[0].is_null();
    if (!row.fails) {
      row.ids = line[0].get<Ids>();
      if (line[1].is_array()) {
        row.special = line[1].get<Ids>();
      } else {
        row.special = head["prefix"].get<Ids>();
        row.special.insert(row.special.end(), row.ids.begin(), row.ids.end());
        for (const auto& id : head["suffix"]) row.special.push_back(id.get<uint32_t>());
      }
      std::string* const decodes[] = {&row.decoded, &row.decoded_skipped, &row.special_decoded, &row.special_skipped};
      for (size_t d = 0; d < 4; ++d) {
        const Json& value = line[d + 2];
        if (value.is_string()) {
          *decodes[d] = value.get<std::string>();
        } else {
          const auto same = value.get<size_t>();
          *decodes[d] = same == 0 ? row.text : *decodes[same - 2];
        }
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace cortiq::text::recorded
