#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace cortiq::convert {

/// One object of a config file, read by key. An absent key has the family's default if there is one; an explicit null
/// means none (decisions 15). A value of the wrong type is Parse with file, key and value; 1.0 is taken where 1 is
/// meant, nothing else is (cases row 51).
class Config {
 public:
  /// `where` begins every message: "config.json: " or "config.json: rope_scaling.". Both objects must outlive this.
  Config(const Json& object, const Json* defaults, std::string where)
      : object_(&object), defaults_(defaults), where_(std::move(where)) {}

  const std::string& where() const noexcept { return where_; }
  const Json& object() const noexcept { return *object_; }

  /// The value, the family's default, or nullptr if there is neither; an explicit null is a pointer to null.
  const Json* find(std::string_view key) const;
  /// The value as the file has it, defaults left out.
  const Json* written(std::string_view key) const;
  /// True if there is a value, or a default, that is not null.
  bool has(std::string_view key) const;

  std::optional<uint64_t> maybe_count(std::string_view key) const;  ///< 0 … 2^31
  uint64_t count(std::string_view key) const;                       ///< 1 … 2^31; Parse if absent
  uint64_t count(std::string_view key, uint64_t fallback) const;    ///< fallback if absent or null
  std::optional<double> maybe_number(std::string_view key) const;   ///< finite
  double number(std::string_view key) const;
  double number(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback = false) const;
  std::optional<std::string> text(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;  ///< empty if absent or null
  std::vector<uint64_t> counts(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;
  /// Token ids: a number, a list of numbers, null or nothing; -1 means none.
  std::vector<uint32_t> ids(std::string_view key) const;
  /// An object below this one; nothing if absent or null.
  std::optional<Config> inner(std::string_view key) const;

  /// Keys of the object that nobody has asked for so far.
  std::vector<std::string> unread() const;

  /// Unsupported: "config.json: 'key' is VALUE: why".
  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;
  /// Parse: "config.json: 'key' is VALUE: EXPECTED expected".
  [[noreturn]] void malformed(std::string_view key, std::string_view expected) const;
  /// 'key' is VALUE
  std::string shown(std::string_view key) const;

 private:
  uint64_t as_count(std::string_view key, const Json& value) const;
  double as_number(std::string_view key, const Json& value) const;

  const Json* object_;
  const Json* defaults_;
  std::string where_;
  std::shared_ptr<std::set<std::string, std::less<>>> read_ = std::make_shared<std::set<std::string, std::less<>>>();
};

}  // namespace cortiq::convert
