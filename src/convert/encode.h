#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convert/convert.h"

namespace cortiq::convert {

/// Encodes the values of a planned tensor. A matrix that f16 cannot hold becomes f32 with a warning, unless f16 was
/// demanded for it (decisions 14). Errors name the tensor.
std::pair<std::vector<uint8_t>, codec::Dtype> encode_planned(const PlannedTensor& tensor, std::span<const float> values,
                                                             ThreadPool& pool, std::vector<std::string>& warnings);

}  // namespace cortiq::convert
