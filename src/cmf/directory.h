#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "cmf/file.h"

namespace cortiq::cmf {

/// The records of a directory section (§3), in order, names as views into it: counts and names are inside the section,
/// names are UTF-8, dtypes known, shapes of at most six dimensions. Offsets and sizes are not looked at.
std::vector<Tensor> parse_directory(Bytes section, std::string_view what);

/// The section: records in the order given, the pool as their names one behind the other (FORMAT_FACTS §3.1).
std::vector<uint8_t> write_directory(std::span<const Tensor> tensors);

/// Bounds and Parse for a name or number of tensors that the directory cannot hold; the same rules as for reading.
void check_name(std::string_view name, std::string_view what);

}  // namespace cortiq::cmf
