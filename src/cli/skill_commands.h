#pragma once
#include <string>
#include <vector>

namespace cortiq::cli {

int skill_measure(const std::vector<std::string>& arguments);
int mask_measure(const std::vector<std::string>& arguments);

}  // namespace cortiq::cli
