#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cortiq {

/// JSON values whose objects keep the order of their keys. For small documents; large tokenizer.json files and tensor
/// lists are read with simdjson where they are read.
using Json = nlohmann::ordered_json;

/// Strict JSON (RFC 8259): UTF-8, no duplicate keys, no byte-order mark (unless allowed), nesting of at most `depth`.
/// Anything else is Parse; the sentence begins with `what` (a file or section) and says where.
struct JsonRules {
  size_t depth = 256;
  bool allow_bom = false;
};
Json parse_json(std::string_view text, std::string_view what, JsonRules rules = {});

}  // namespace cortiq
