#pragma once
#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace cortiq::text::jinja {

struct Filter {
  std::string_view name;
  Value (*run)(Runtime& runtime, const Value& value, Args& args);
};
struct Test {
  std::string_view name;
  bool (*run)(Runtime& runtime, const Value& value, Args& args);
};
struct Global {
  std::string_view name;
  Value (*run)(Runtime& runtime, Args& args);
  const char* repr;
};

// Tables by topic; the finders search all of them.
std::span<const Filter> text_filters();
std::span<const Filter> html_filters();
std::span<const Filter> number_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> selection_filters();

const Filter* find_filter(std::string_view name) noexcept;
const Test* find_test(std::string_view name) noexcept;
std::span<const Global> globals() noexcept;
Value make_global(Runtime& runtime, const Global& global);

/// jinja's path of an attribute ("a.b.0"): applied to an item.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute);
  /// `otherwise` (if given) replaces what is undefined on the way.
  Value of(Runtime& runtime, Value item, const Value& otherwise = Value()) const;

 private:
  Values parts_;
};

/// Strings lower-cased, everything else as it is: how filters compare by default.
Value ignore_case(Runtime& runtime, const Value& value);

/// int(text, base) and float(text) of Python, or a missing value where they raise ValueError.
Value parse_integer(Runtime& runtime, std::string_view text, int64_t base);
Value parse_real(std::string_view text);

/// textwrap.wrap for one paragraph without tabs.
std::vector<std::string> wrap_words(Runtime& runtime, std::string_view text, int64_t width, bool break_long,
                                    bool break_hyphens);
/// jinja's urlize.
std::string link_urls(Runtime& runtime, std::string_view text, int64_t limit, std::string_view rel,
                      std::string_view target, const std::vector<std::string>& schemes);

}  // namespace cortiq::text::jinja
