#pragma once
#include <cstddef>
#include <cstdint>

// The generated tables behind unicode.h. Ranges are pairs (gap since the end of the range before, length - 1).
namespace cortiq::text::unicode_data {

struct NamedClass {
  const char* name;
  uint32_t offset, size;  ///< its part of kRanges
};

extern const uint32_t kRanges[];
extern const NamedClass kClasses[];  ///< sorted by name
extern const size_t kClasses_size;

/// Rows (step since the code point before, length, mapping…): full canonical decompositions; full compatibility
/// decompositions where they differ from those; lower case.
extern const uint32_t kCanonical[], kCompatibility[], kLower[];
extern const size_t kCanonical_size, kCompatibility_size, kLower_size;

extern const uint32_t kCompose[];  ///< triples: first, second, composite
extern const size_t kCompose_size;
extern const uint32_t kCombining[];  ///< ranges with the combining class as a third number
extern const size_t kCombining_size;
extern const uint32_t kScripts[];  ///< ranges with a script number as a third number
extern const size_t kScripts_size;

}  // namespace cortiq::text::unicode_data
