// Compares tokenizers with the genuine library on random texts.
//   tokenizer_parity strings FOLDER FIRST COUNT   texts of COUNT blocks, a JSON string a line
//   tokenizer_parity encode FOLDER FIRST COUNT    what this tokenizer makes of them: [ids, special, decoded] or null a
//   line tokenizer_parity check ROOT                   every tokenizer below ROOT against ROOT/random.json
// FOLDER holds a tokenizer.json or variant.json. A block has 1,000 texts. random.json, written by
// scripts/record_tokenizers.py, has a hash of what the library gave for each block.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "base/utf8.h"
#include "parity/random_strings.h"
#include "text/recorded.h"

namespace cortiq::parity {
namespace {

namespace fs = std::filesystem;
using text::Ids;

constexpr uint64_t kBlock = 1000;

std::vector<std::string> added_tokens(const std::string& definition) {
  std::vector<std::string> out;
  const auto parsed = nlohmann::json::parse(definition);
  const auto tokens = parsed.find("added_tokens");
  if (tokens == parsed.end() || tokens->is_null()) return out;
  // Of thousands, every n-th.
  const size_t step = tokens->size() / 200 + 1;
  for (size_t i = 0; i < tokens->size(); i += step) out.push_back((*tokens)[i]["content"].get<std::string>());
  return out;
}

struct Subject {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::vector<std::string> added;
  explicit Subject(const fs::path& folder) {
    const std::string definition = text::recorded::definition(folder);
    tokenizer = text::Tokenizer::parse(definition, folder.filename().string());
    added = added_tokens(definition);
  }
};

void append(std::string& out, const Ids& ids, char end) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i != 0) out += ',';
    out += std::to_string(ids[i]);
  }
  out += end;
}

// The record that is hashed: ids|ids with special tokens|decoded text, or "error". scripts/record_tokenizers.py has it
// too.
std::string record_of(const text::Tokenizer& tokenizer, const std::string& text) {
  std::string out;
  try {
    const Ids ids = tokenizer.encode(text, false);
    append(out, ids, '|');
    append(out, tokenizer.encode(text, true), '|');
    out += tokenizer.decode(ids, false);
  } catch (const Error&) {
    out = "error";
  }
  return out += '\n';
}

std::string hash_of_block(const Subject& subject, uint64_t block) {
  RandomStrings strings(subject.added, block);
  std::string all;
  for (uint64_t i = 0; i < kBlock; ++i) all += record_of(*subject.tokenizer, strings.next());
  return hex(sha256({reinterpret_cast<const uint8_t*>(all.data()), all.size()})).substr(0, 12);
}

void print_strings(const Subject& subject, uint64_t block) {
  RandomStrings strings(subject.added, block);
  for (uint64_t i = 0; i < kBlock; ++i) std::printf("%s\n", nlohmann::json(strings.next()).dump(-1, ' ', true).c_str());
}

void print_encoded(const Subject& subject, uint64_t block) {
  RandomStrings strings(subject.added, block);
  for (uint64_t i = 0; i < kBlock; ++i) {
    nlohmann::json line;
    try {
      const std::string text = strings.next();
      const Ids ids = subject.tokenizer->encode(text, false);
      line = {ids, subject.tokenizer->encode(text, true), subject.tokenizer->decode(ids, false)};
    } catch (const Error&) {
    }
    std::printf("%s\n", line.dump(-1, ' ', true).c_str());
  }
}

int check(const fs::path& root) {
  const Json recorded = Json::parse(text::recorded::read(root / "random.json"));
  std::vector<std::string> names;
  for (const auto& [name, blocks] : recorded["tokenizers"].items()) names.push_back(name);
  std::atomic<size_t> strings = 0, wrong = 0;
  std::mutex output;
  ThreadPool pool(std::thread::hardware_concurrency());
  pool.run(names.size(), [&](size_t i) {
    const Subject subject(root / names[i]);
    const Json& blocks = recorded["tokenizers"][names[i]];
    for (uint64_t block = 0; block < blocks.size(); ++block) {
      strings += kBlock;
      if (hash_of_block(subject, block) == blocks[block].get<std::string>()) continue;
      ++wrong;
      const std::lock_guard lock(output);
      std::printf("%s: block %zu differs from what the library gave; make parity shows the text\n", names[i].c_str(),
                  static_cast<size_t>(block));
    }
  });
  std::printf("%zu tokenizers, %zu random texts, %zu blocks differ\n", names.size(), strings.load(), wrong.load());
  return wrong != 0 || strings == 0;
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "check") return check(words[1]);
  if (words.size() != 4 || (words[0] != "strings" && words[0] != "encode")) {
    std::fprintf(stderr, "usage: tokenizer_parity strings|encode FOLDER FIRST COUNT, or check ROOT\n");
    return 2;
  }
  const Subject subject{fs::path(words[1])};
  const uint64_t first = std::stoull(words[2]), count = std::stoull(words[3]);
  for (uint64_t block = first; block < first + count; ++block) {
    words[0] == "strings" ? print_strings(subject, block) : print_encoded(subject, block);
  }
  return 0;
}

}  // namespace
}  // namespace cortiq::parity

int main(int count, char** values) { return cortiq::parity::run({values + 1, values + count}); }
