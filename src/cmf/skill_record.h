#pragma once
#include "cmf/fields.h"
#include "cmf/header.h"

namespace cortiq::cmf {

/// One record of the registry (FORMAT_FACTS §4.5). A selection that cannot route makes the record unroutable, not the
/// file invalid.
SkillRecord parse_skill_record(const Fields& in, const Arch& arch);

}  // namespace cortiq::cmf
