#pragma once
#include <span>

#include "convert/convert.h"

namespace cortiq::convert {

/// The values of a recipe, row-major, into `out`, which must have exactly their number of places.
void read_values(const Recipe& recipe, std::span<float> out, ThreadPool& pool);

}  // namespace cortiq::convert
