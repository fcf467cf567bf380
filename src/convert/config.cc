#include "convert/config.h"

#include <cmath>

namespace cortiq::convert {
namespace {

constexpr double kMaxCount = 2147483648.0;  // no size of a model comes near; products of two fit 64 bits

std::string dump(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 120);
}

}  // namespace

const Json* Config::written(std::string_view key) const {
  read_->emplace(key);
  const auto at = object_->find(key);
  return at == object_->end() ? nullptr : &*at;
}

const Json* Config::find(std::string_view key) const {
  if (const Json* value = written(key)) return value;
  if (!defaults_) return nullptr;
  const auto at = defaults_->find(key);
  return at == defaults_->end() ? nullptr : &*at;
}

std::vector<std::string> Config::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : object_->items()) {
    if (!read_->contains(key)) out.push_back(key);
  }
  return out;
}

bool Config::has(std::string_view key) const {
  const Json* value = find(key);
  return value && !value->is_null();
}

std::string Config::shown(std::string_view key) const {
  const Json* value = find(key);
  return fmt::format("'{}' is {}", key, value ? dump(*value) : "missing");
}

void Config::refuse(std::string_view key, std::string_view why) const {
  fail(ErrorKind::Unsupported, "{}{}: {}", where_, shown(key), why);
}

void Config::malformed(std::string_view key, std::string_view expected) const {
  fail(ErrorKind::Parse, "{}{}: {} expected", where_, shown(key), expected);
}

uint64_t Config::as_count(std::string_view key, const Json& value) const {
  constexpr std::string_view kExpected = "an integer from 0 to 2147483648";
  if (!value.is_number()) malformed(key, kExpected);
  const double number = value.get<double>();
  if (!(number >= 0 && number <= kMaxCount) || number != std::floor(number)) malformed(key, kExpected);
  return static_cast<uint64_t>(number);
}

double Config::as_number(std::string_view key, const Json& value) const {
  if (!value.is_number() || !std::isfinite(value.get<double>())) malformed(key, "a finite number");
  return value.get<double>();
}

std::optional<uint64_t> Config::maybe_count(std::string_view key) const {
  return has(key) ? std::optional(as_count(key, *find(key))) : std::nullopt;
}

uint64_t Config::count(std::string_view key) const {
  const auto value = maybe_count(key);
  if (!value || *value == 0) malformed(key, "a positive integer");
  return *value;
}

uint64_t Config::count(std::string_view key, uint64_t fallback) const { return has(key) ? count(key) : fallback; }

std::optional<double> Config::maybe_number(std::string_view key) const {
  return has(key) ? std::optional(as_number(key, *find(key))) : std::nullopt;
}

double Config::number(std::string_view key) const {
  const auto value = maybe_number(key);
  if (!value) malformed(key, "a number");
  return *value;
}

double Config::number(std::string_view key, double fallback) const { return maybe_number(key).value_or(fallback); }

bool Config::flag(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = *find(key);
  if (!value.is_boolean()) malformed(key, "true or false");
  return value.get<bool>();
}

std::optional<std::string> Config::text(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const Json& value = *find(key);
  if (!value.is_string()) malformed(key, "a string");
  return value.get<std::string>();
}

std::vector<double> Config::numbers(std::string_view key) const {
  std::vector<double> out;
  if (!has(key)) return out;
  if (!find(key)->is_array()) malformed(key, "a list of numbers");
  for (const Json& value : *find(key)) out.push_back(as_number(key, value));
  return out;
}

std::vector<uint64_t> Config::counts(std::string_view key) const {
  std::vector<uint64_t> out;
  if (!has(key)) return out;
  if (!find(key)->is_array()) malformed(key, "a list of integers");
  for (const Json& value : *find(key)) out.push_back(as_count(key, value));
  return out;
}

std::vector<std::string> Config::texts(std::string_view key) const {
  std::vector<std::string> out;
  if (!has(key)) return out;
  if (!find(key)->is_array()) malformed(key, "a list of strings");
  for (const Json& value : *find(key)) {
    if (!value.is_string()) malformed(key, "a list of strings");
    out.push_back(value.get<std::string>());
  }
  return out;
}

std::vector<uint32_t> Config::ids(std::string_view key) const {
  std::vector<uint32_t> out;
  if (!has(key)) return out;
  const Json& value = *find(key);
  const auto add = [&](const Json& id) {
    if (id == -1) return;  // how some configs say none
    out.push_back(static_cast<uint32_t>(as_count(key, id)));
  };
  if (value.is_array()) {
    for (const Json& id : value) add(id);
  } else {
    add(value);
  }
  return out;
}

std::optional<Config> Config::inner(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const Json& value = *find(key);
  if (!value.is_object()) malformed(key, "an object");
  return Config(value, nullptr, fmt::format("{}{}.", where_, key));
}

}  // namespace cortiq::convert
