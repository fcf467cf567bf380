#pragma once
#include <string>
#include <vector>

#include "convert/config.h"
#include "convert/family.h"

namespace cortiq::convert {

/// Refuses, with key and value, every key that changes results and that neither the header nor this family can
/// express (cases rows 36, 52).
void check_rules(const Config& config, const Family& family);

/// One note that lists the keys nobody has looked at and that are not known to be harmless.
void note_unread(const Config& top, const Config& config, std::vector<std::string>& notes);

}  // namespace cortiq::convert
