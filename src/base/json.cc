#include "base/json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace cortiq {
namespace {

using Number = nlohmann::ordered_json;

// Builds the value itself, so that duplicate keys and depth are seen while parsing and nothing recurses on the input.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view what, JsonRules rules) : what_(what), rules_(rules) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second) {
      fail(ErrorKind::Parse, "{}: the key '{}' stands twice in one object", what_, printable(key, 80));
    }
    key_ = std::move(key);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // The library quotes the input; its own words end after the id in brackets.
    const std::string_view all = error.what();
    const size_t bracket = all.find("] ");
    fail(ErrorKind::Parse, "{}: not valid JSON at byte {}: {}", what_, position,
         printable(bracket == all.npos ? all : all.substr(bracket + 2), 160));
  }

 private:
  template <class Value>
  bool put(Value&& value) {
    place(Json(std::forward<Value>(value)));
    return true;
  }

  Json* place(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // ordered_json searches linearly; the key is known to be new, so it is appended directly.
    auto& object = parent.get_ref<Json::object_t&>();
    static_cast<std::vector<std::pair<const std::string, Json>>&>(object).emplace_back(std::move(key_),
                                                                                       std::move(value));
    return &object.back().second;
  }

  bool open(Json&& value) {
    if (open_.size() >= rules_.depth) fail(ErrorKind::Parse, "{}: JSON nested deeper than {}", what_, rules_.depth);
    open_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string_view what_;
  JsonRules rules_;
  Json root_;
  std::vector<Json*> open_;  // a parent is not moved while its child is open
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what, JsonRules rules) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (rules.allow_bom && text.starts_with(kMark)) text.remove_prefix(kMark.size());
  // The library would skip it.
  if (text.starts_with(kMark)) fail(ErrorKind::Parse, "{}: JSON begins with a byte-order mark", what);
  Builder builder(what, rules);
  Json::sax_parse(text.begin(), text.end(), &builder, nlohmann::detail::input_format_t::json, true);
  return builder.take();
}

}  // namespace cortiq
