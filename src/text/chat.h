#pragma once
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cortiq::text {

/// A chat template with Hugging Face's settings: immutable sandbox, trim_blocks, lstrip_blocks, loop controls,
/// {% generation %}, tojson in their dialect, raise_exception, strftime_now. Immutable; safe from several threads.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  /// Parse, with line and column, if the source is not a template.
  static std::shared_ptr<const ChatTemplate> parse(std::string_view source, std::string_view what);

  /// Renders with `context` as the template's variables (an absent key is undefined, null is none, order kept). Errors
  /// of the template (raise_exception, wrong types, undefined attributes, an exhausted budget) are Parse with the
  /// template's own message. `now`: the clock of strftime_now as local broken-down time; absent: the system's.
  virtual std::string render(const Json& context, const std::optional<std::tm>& now = std::nullopt) const = 0;
};

/// "2024-07-26T14:05:09" → broken-down time; Usage if malformed.
std::tm parse_clock(std::string_view iso8601);

}  // namespace cortiq::text
