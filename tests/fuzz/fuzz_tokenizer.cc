#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

// Any bytes as a tokenizer.json: an error or a tokenizer that works.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cortiq;
  try {
    const auto tokenizer =
        text::Tokenizer::parse(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.json");
    text::Ids ids = tokenizer->encode("The  cat's \u00e9\u0301 1234 <s>\n\n\u4e2d\u6587\U0001F600 ##ing \u2581x", true);
    ids.push_back(static_cast<uint32_t>(size));
    if (!valid_utf8(tokenizer->decode(ids, false))) __builtin_trap();
    tokenizer->decode(ids, true);
  } catch (const Error&) {
  }
  return 0;
}
