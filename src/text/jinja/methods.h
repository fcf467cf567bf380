#pragma once
#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace cortiq::text::jinja {

/// A method of a built-in type.
struct Method {
  std::string_view name;
  Value (*run)(Runtime& runtime, const Value& self, Args& args);
};

std::span<const Method> string_methods();  // sorted by name

}  // namespace cortiq::text::jinja
