#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace cortiq::text::jinja {

// The algorithms of Python's str over UTF-8. Pieces are views into their argument.

using Pieces = std::vector<std::string_view>;

size_t count_codes(std::string_view text) noexcept;
/// Byte offset of a code point index, which is clamped to the text.
size_t code_offset(std::string_view text, size_t index) noexcept;

/// `chars`: the code points to remove; data() == nullptr: white space.
std::string_view strip(std::string_view text, std::string_view chars, bool left, bool right);
/// limit < 0: no limit. Without separator: at runs of white space.
Pieces split(Runtime& runtime, std::string_view text, std::string_view separator, int64_t limit, bool from_right);
Pieces split_space(Runtime& runtime, std::string_view text, int64_t limit, bool from_right);
Pieces split_lines(Runtime& runtime, std::string_view text, bool keep_ends);
std::string replace(Runtime& runtime, std::string_view text, std::string_view old, std::string_view with,
                    int64_t limit);
/// Occurrences that do not overlap.
int64_t count(std::string_view text, std::string_view part);
/// Filled on both sides to `width` code points; more < 0: on the left, > 0: on the right, 0: both as str.center does.
std::string pad(Runtime& runtime, std::string_view text, int64_t width, std::string_view fill, int more);
std::string expand_tabs(Runtime& runtime, std::string_view text, int64_t size);

}  // namespace cortiq::text::jinja
