#include "cmf/fields.h"

#include <cmath>

#include "cmf/lossless_json.h"

namespace cortiq::cmf {
namespace {

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return printable(write_json(value), 60);
}

}  // namespace

Fields::Fields(const Json& value, std::string path, std::string_view what)
    : value_(&value), path_(std::move(path)), what_(what) {
  if (!value.is_object()) {
    fail(ErrorKind::Parse, "{}: {}: must be an object, not {}", what_, path_.empty() ? "the header" : path_,
         shown(value));
  }
}

void Fields::wrong(std::string_view key, const std::string& reason) const {
  fail(ErrorKind::Parse, "{}: {}{}{}: {}", what_, path_, path_.empty() ? "" : ".", key, reason);
}

const Json* Fields::find(const char* key) const {
  const auto at = value_->find(key);
  return at == value_->end() ? nullptr : &*at;
}

const Json* Fields::find_set(const char* key) const {
  const Json* value = find(key);
  return value && value->is_null() ? nullptr : value;
}

const Json& Fields::required(const char* key) const {
  const Json* value = find(key);
  if (!value) wrong(key, "is missing");
  return *value;
}

Fields Fields::object(const char* key) const { return {required(key), path_.empty() ? key : path_ + "." + key, what_}; }

std::optional<Fields> Fields::maybe_object(const char* key) const {
  if (!find_set(key)) return std::nullopt;
  return object(key);
}

uint64_t Fields::to_integer(const char* key, const Json& value, uint64_t limit) const {
  if (!value.is_number_integer() || value < 0) wrong(key, "must be a whole number, not " + shown(value));
  const auto got = value.get<uint64_t>();
  if (got > limit) wrong(key, fmt::format("{} is larger than {}", got, limit));
  return got;
}

uint64_t Fields::integer(const char* key, uint64_t limit) const { return to_integer(key, required(key), limit); }

uint64_t Fields::integer_or(const char* key, uint64_t fallback, uint64_t limit) const {
  const Json* value = find(key);
  return value ? to_integer(key, *value, limit) : fallback;
}

std::optional<uint64_t> Fields::maybe_integer(const char* key, uint64_t limit) const {
  const Json* value = find_set(key);
  if (!value) return std::nullopt;
  return to_integer(key, *value, limit);
}

std::vector<uint64_t> Fields::integers(const char* key, uint64_t limit) const {
  std::vector<uint64_t> out;
  if (!find(key)) return out;
  for (const Json& value : array(key)) out.push_back(to_integer(key, value, limit));
  return out;
}

double Fields::to_number(const char* key, const Json& value) const {
  double out = 0;
  if (!read_double(value, out) || !std::isfinite(out)) wrong(key, "must be a number, not " + shown(value));
  return out;
}

double Fields::number(const char* key) const { return to_number(key, required(key)); }

double Fields::number_or(const char* key, double fallback) const {
  const Json* value = find(key);
  return value ? to_number(key, *value) : fallback;
}

std::optional<double> Fields::maybe_number(const char* key) const {
  const Json* value = find_set(key);
  if (!value) return std::nullopt;
  return to_number(key, *value);
}

std::vector<double> Fields::numbers(const char* key) const {
  std::vector<double> out;
  for (const Json& value : array(key)) out.push_back(to_number(key, value));
  return out;
}

bool Fields::flag_or(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) wrong(key, "must be true or false, not " + shown(*value));
  return value->get<bool>();
}

const std::string& Fields::to_text(const char* key, const Json& value) const {
  if (!value.is_string()) wrong(key, "must be a string, not " + shown(value));
  return value.get_ref<const std::string&>();
}

std::string Fields::text(const char* key) const { return to_text(key, required(key)); }

std::optional<std::string> Fields::maybe_text(const char* key) const {
  const Json* value = find_set(key);
  if (!value) return std::nullopt;
  return to_text(key, *value);
}

const Json& Fields::array(const char* key) const {
  const Json& value = required(key);
  if (!value.is_array()) wrong(key, "must be an array, not " + shown(value));
  return value;
}

}  // namespace cortiq::cmf
