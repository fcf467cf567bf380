#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

using namespace cortiq;

// The ids of a text, or nothing if the file is refused.
std::optional<text::Ids> ids_of(std::string_view json) {
  try {
    const auto tokenizer = text::Tokenizer::parse(json, "fuzz.json");
    text::Ids ids = tokenizer->encode("The  cat's \u00e9\u0301 1234 <s>\n\n\u4e2d\u6587\U0001F600 ##ing \u2581x", true);
    ids.push_back(static_cast<uint32_t>(json.size()));
    if (!valid_utf8(tokenizer->decode(ids, false))) __builtin_trap();
    tokenizer->decode(ids, true);
    ids.pop_back();
    return ids;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

// Any bytes as a tokenizer.json: an error or a tokenizer that works. A member that nothing reads, with a pair of
// surrogates in it, sends the file past the reader of plain vocabularies; the JSON parser must come to the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const std::optional<text::Ids> ids = ids_of(json);
  const size_t begin = json.find_first_not_of(" \n\r\t");
  if (begin == json.npos || json[begin] != '{') return 0;
  std::string other(json);
  other.insert(begin + 1, R"("\ud83d\ude00":0,)");
  if (ids_of(other) != ids) __builtin_trap();
  return 0;
}
