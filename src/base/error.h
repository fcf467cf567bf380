#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "cortiq/error.h"

namespace cortiq {

/// Throws Error(kind) with a formatted sentence.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(kind, fmt::format(sentence, std::forward<Args>(args)...));
}

/// Runs `action`; an Error leaving it is thrown again with "context: " in front of its sentence.
template <class Action>
decltype(auto) with_context(const std::string& context, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const Error& error) {
    throw Error(error.kind(), context + ": " + error.what());
  }
}

/// Text from a file made safe to show on one line: control characters and invalid UTF-8 are escaped as \xNN, the rest
/// is kept; longer than `limit` bytes is cut with "…".
std::string printable(std::string_view text, size_t limit = 200);

}  // namespace cortiq
