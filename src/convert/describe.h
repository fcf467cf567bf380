#pragma once
#include <string>
#include <vector>

#include "cmf/arch.h"
#include "convert/family.h"
#include "convert/source.h"

namespace cortiq::convert {

/// What a config says, once its family has interpreted it; everything that cannot be represented has been refused.
struct Described {
  const Family* family = nullptr;
  cmf::Arch arch;
  Layout layout;
  std::vector<uint32_t> eos;  ///< of the config alone, both levels
  std::optional<uint32_t> bos, pad;
  Json rope;    ///< the source's rotary keys, for provenance; an empty object if it has none
  Json defrag;  ///< provenance of a cut (FORMAT_FACTS §11); null without one
  std::vector<std::string> notes, warnings;
};

/// No tensor is looked at.
Described describe(const Checkpoint& checkpoint);

}  // namespace cortiq::convert
