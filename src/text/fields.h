#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cortiq::text {

/// One component of a tokenizer.json, with its path for errors. Reads its members by type: Parse if one is missing
/// (where no default is given) or of another type.
class Fields {
 public:
  /// Parse if it is not an object.
  Fields(const Json& json, std::string path);

  const std::string& path() const noexcept { return path_; }
  /// The member "type"; Parse if there is none.
  std::string type() const { return text("type"); }

  bool has(const char* name) const;  ///< there and not null
  const Json& at(const char* name) const;
  std::string path_of(const char* name) const { return path_ + "/" + name; }

  bool flag(const char* name) const;
  bool flag(const char* name, bool absent) const { return has(name) ? flag(name) : absent; }
  std::string text(const char* name) const;
  std::string text(const char* name, std::string absent) const { return has(name) ? text(name) : absent; }
  uint64_t count(const char* name) const;
  uint64_t count(const char* name, uint64_t absent) const { return has(name) ? count(name) : absent; }
  char32_t character(const char* name) const;  ///< a text of exactly one character
  const Json& list(const char* name) const;    ///< an array

  /// Throws Unsupported that names type and path.
  [[noreturn]] void unknown_type(std::string_view what) const;

 private:
  const Json& json_;
  std::string path_;
};

}  // namespace cortiq::text
