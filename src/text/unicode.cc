#include "text/unicode.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "text/unicode_data.h"

namespace cortiq::text {
namespace {

namespace data = unicode_data;

using Classes = std::map<std::string, CodeSet, std::less<>>;

CodeSet unpack(const uint32_t* numbers, size_t size) {
  CodeSet out;
  out.reserve(size / 2);
  char32_t next = 0;
  for (size_t i = 0; i < size; i += 2) {
    const char32_t first = next + numbers[i], last = first + numbers[i + 1];
    out.push_back({first, last});
    next = last + 1;
  }
  return out;
}

struct Range3 {
  char32_t first, last;
  uint32_t value;
};

std::vector<Range3> unpack_values(const uint32_t* numbers, size_t size) {
  std::vector<Range3> out;
  char32_t next = 0;
  for (size_t i = 0; i < size; i += 3) {
    const char32_t first = next + numbers[i], last = first + numbers[i + 1];
    out.push_back({first, last, numbers[i + 2]});
    next = last + 1;
  }
  return out;
}

std::vector<CodeSegment<int16_t>> segments_of(const std::vector<Range3>& ranges, int16_t otherwise) {
  std::vector<CodeSegment<int16_t>> out;
  char32_t next = 0;
  for (const Range3& range : ranges) {
    if (range.first > next || out.empty()) out.push_back({next, otherwise});
    if (out.back().first == range.first) out.pop_back();
    out.push_back({range.first, static_cast<int16_t>(range.value)});
    next = range.last + 1;
  }
  if (next <= kLastCode) out.push_back({next, otherwise});
  return out;
}

// Code points that have a mapping, with the place of it in the stream.
class Mapping {
 public:
  Mapping(const uint32_t* numbers, size_t size) : numbers_(numbers) {
    char32_t code = 0;
    for (size_t i = 0; i < size; i += 2 + numbers[i + 1]) {
      code += numbers[i];
      place_.emplace(code, static_cast<uint32_t>(i + 1));
    }
  }
  std::span<const uint32_t> operator[](char32_t code) const {
    const auto found = place_.find(code);
    return found == place_.end() ? std::span<const uint32_t>{}
                                 : std::span(numbers_ + found->second + 1, numbers_[found->second]);
  }
  CodeSet domain() const {
    std::vector<char32_t> codes;
    for (const auto& [code, place] : place_) codes.push_back(code);
    std::sort(codes.begin(), codes.end());
    CodeSet out;
    for (const char32_t code : codes) out.push_back({code, code});
    return out;
  }

 private:
  const uint32_t* numbers_;
  std::unordered_map<char32_t, uint32_t> place_;
};

struct Mappings {
  Mapping canonical{data::kCanonical, data::kCanonical_size};
  Mapping compatibility{data::kCompatibility, data::kCompatibility_size};
  Mapping lower{data::kLower, data::kLower_size};
  std::unordered_map<uint64_t, char32_t> pairs;
  CodeMap<int16_t> combining;

  Mappings() : combining(segments_of(unpack_values(data::kCombining, data::kCombining_size), 0)) {
    for (size_t i = 0; i < data::kCompose_size; i += 3) {
      pairs.emplace(uint64_t{data::kCompose[i]} << 32 | data::kCompose[i + 1], data::kCompose[i + 2]);
    }
  }
};

const Mappings& mappings() {
  static const Mappings all;
  return all;
}

CodeMap<uint32_t> make_traits() {
  const Mappings& maps = mappings();
  CodeSet canonical = maps.canonical.domain();
  canonical.push_back({0xAC00, 0xD7A3});
  std::sort(canonical.begin(), canonical.end(), [](auto a, auto b) { return a.first < b.first; });
  const CodeSet compatibility = maps.compatibility.domain(), lower = maps.lower.domain();
  CodeSet combining, second;
  for (const Range3& range : unpack_values(data::kCombining, data::kCombining_size)) {
    combining.push_back({range.first, range.last});
  }
  std::vector<char32_t> seconds;
  for (const auto& [pair, composite] : maps.pairs) seconds.push_back(static_cast<char32_t>(pair));
  std::sort(seconds.begin(), seconds.end());
  seconds.erase(std::unique(seconds.begin(), seconds.end()), seconds.end());
  for (const char32_t code : seconds) second.push_back({code, code});
  second.push_back({0x1161, 0x1175});  // Hangul vowels and trailing consonants
  second.push_back({0x11A8, 0x11C2});
  std::sort(second.begin(), second.end(), [](auto a, auto b) { return a.first < b.first; });
  const std::vector<const CodeSet*> sets = {named_class("punctuation"),
                                            named_class("white space"),
                                            named_class("numeric"),
                                            named_class("word"),
                                            named_class("accent"),
                                            named_class("bert removed"),
                                            named_class("bert space"),
                                            named_class("bert chinese"),
                                            named_class("bert accent"),
                                            named_class("nmt removed"),
                                            named_class("nmt space"),
                                            &canonical,
                                            &compatibility,
                                            &combining,
                                            &second,
                                            &lower};
  std::vector<CodeSegment<uint32_t>> segments;
  for (const auto& [first, mask] : membership(sets)) segments.push_back({first, static_cast<uint32_t>(mask)});
  return CodeMap<uint32_t>(segments);
}

}  // namespace

const CodeSet* named_class(std::string_view name) {
  static const Classes all = [] {
    Classes out;
    for (size_t i = 0; i < data::kClasses_size; ++i) {
      out.emplace(data::kClasses[i].name, unpack(data::kRanges + data::kClasses[i].offset, data::kClasses[i].size));
    }
    return out;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

uint32_t traits(char32_t code) noexcept {
  static const CodeMap<uint32_t> map = make_traits();
  return map[code];
}

uint32_t combining_class(char32_t code) noexcept { return static_cast<uint32_t>(mappings().combining[code]); }

std::span<const uint32_t> canonical_mapping(char32_t code) noexcept { return mappings().canonical[code]; }

std::span<const uint32_t> compatibility_mapping(char32_t code) noexcept {
  const auto own = mappings().compatibility[code];
  return own.empty() ? mappings().canonical[code] : own;
}

std::span<const uint32_t> lower_mapping(char32_t code) noexcept { return mappings().lower[code]; }

char32_t compose(char32_t first, char32_t second) noexcept {
  const auto found = mappings().pairs.find(uint64_t{first} << 32 | second);
  return found == mappings().pairs.end() ? 0 : found->second;
}

int script_of(char32_t code) noexcept {
  static const CodeMap<int16_t> map(segments_of(unpack_values(data::kScripts, data::kScripts_size), -1));
  return map[code];
}

}  // namespace cortiq::text
