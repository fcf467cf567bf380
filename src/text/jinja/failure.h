#pragma once
#include <fmt/format.h>

#include <string>
#include <utility>

namespace cortiq::text::jinja {

/// A rendering that went wrong, in the words of Python or of the template; the renderer adds the line.
struct Failure {
  std::string message;
  bool own = false;  // the template's own words, from raise_exception
};

template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> message, Args&&... args) {
  throw Failure{fmt::format(message, std::forward<Args>(args)...)};
}

}  // namespace cortiq::text::jinja
