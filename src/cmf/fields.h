#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace cortiq::cmf {

/// The keys of one JSON object with their types, as FORMAT_FACTS §4 counts them: every complaint is Parse and names the
/// path. `null` stands for absent only where a key has no concrete default (the maybe_ functions).
class Fields {
 public:
  Fields(const Json& value, std::string path, std::string_view what);

  /// nullptr if the key is absent.
  const Json* find(const char* key) const;
  /// As find, but null counts as absent too.
  const Json* find_set(const char* key) const;
  Fields object(const char* key) const;
  std::optional<Fields> maybe_object(const char* key) const;

  /// Whole numbers: written without point or exponent, not negative, at most `limit`.
  static constexpr uint64_t kLimit = uint64_t{1} << 53;
  uint64_t integer(const char* key, uint64_t limit = kLimit) const;
  uint64_t integer_or(const char* key, uint64_t fallback, uint64_t limit = kLimit) const;
  std::optional<uint64_t> maybe_integer(const char* key, uint64_t limit = kLimit) const;
  std::vector<uint64_t> integers(const char* key, uint64_t limit = kLimit) const;  ///< empty when absent; null refused

  double number(const char* key) const;
  double number_or(const char* key, double fallback) const;
  std::optional<double> maybe_number(const char* key) const;
  std::vector<double> numbers(const char* key) const;  ///< of an array that must be there

  bool flag_or(const char* key, bool fallback) const;
  std::string text(const char* key) const;
  std::optional<std::string> maybe_text(const char* key) const;

  const Json& array(const char* key) const;

  [[noreturn]] void wrong(std::string_view key, const std::string& reason) const;
  const std::string& path() const noexcept { return path_; }
  std::string_view what() const noexcept { return what_; }
  const Json& json() const noexcept { return *value_; }

 private:
  const Json& required(const char* key) const;
  uint64_t to_integer(const char* key, const Json& value, uint64_t limit) const;
  double to_number(const char* key, const Json& value) const;
  const std::string& to_text(const char* key, const Json& value) const;

  const Json* value_;
  std::string path_;
  std::string_view what_;
};

}  // namespace cortiq::cmf
