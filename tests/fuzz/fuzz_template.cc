// Any bytes as a chat template: an error or a prompt of valid UTF-8, within the budgets.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cortiq;
  static const Json context =
      Json::parse(R"({"messages": [{"role": "user", "content": "h\u00e9 <b>", "n": 1.5}, {"role": "assistant",
      "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, true, null]}}}]}],
      "tools": [{"type": "function"}], "add_generation_prompt": true, "bos_token": "<s>", "x": 3, "s": "a b,c", "l": [3, 1, 2]})");
  try {
    const auto chat_template = text::ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!valid_utf8(chat_template->render(context, text::parse_clock("2024-07-26T14:05:09")))) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
