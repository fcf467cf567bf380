#include "text/fields.h"

#include "base/error.h"
#include "text/unicode.h"

namespace cortiq::text {

Fields::Fields(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json.is_object()) fail(ErrorKind::Parse, "{}: expected an object, found {}", path_, json.type_name());
}

bool Fields::has(const char* name) const {
  const auto found = json_.find(name);
  return found != json_.end() && !found->is_null();
}

const Json& Fields::at(const char* name) const {
  const auto found = json_.find(name);
  if (found == json_.end()) fail(ErrorKind::Parse, "{}: the member '{}' is missing", path_, name);
  return *found;
}

bool Fields::flag(const char* name) const {
  const Json& value = at(name);
  if (!value.is_boolean())
    fail(ErrorKind::Parse, "{}: expected true or false, found {}", path_of(name), value.type_name());
  return value.get<bool>();
}

std::string Fields::text(const char* name) const {
  const Json& value = at(name);
  if (!value.is_string()) fail(ErrorKind::Parse, "{}: expected a string, found {}", path_of(name), value.type_name());
  return value.get<std::string>();
}

uint64_t Fields::count(const char* name) const {
  const Json& value = at(name);
  if (!value.is_number_unsigned()) {
    fail(ErrorKind::Parse, "{}: expected a whole number, found {}", path_of(name), printable(value.dump(), 40));
  }
  return value.get<uint64_t>();
}

char32_t Fields::character(const char* name) const {
  const std::string value = text(name);
  if (value.empty() || code_at(value, 0).size != value.size()) {
    fail(ErrorKind::Parse, "{}: expected one character, found '{}'", path_of(name), printable(value, 40));
  }
  return code_at(value, 0).code;
}

const Json& Fields::list(const char* name) const {
  const Json& value = at(name);
  if (!value.is_array()) fail(ErrorKind::Parse, "{}: expected an array, found {}", path_of(name), value.type_name());
  return value;
}

void Fields::unknown_type(std::string_view what) const {
  fail(ErrorKind::Unsupported, "{}: {} of type '{}' is not known", path_, what, printable(type(), 60));
}

}  // namespace cortiq::text
