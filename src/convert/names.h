#pragma once
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/family.h"

namespace cortiq::convert {

/// A tensor of the source under its CMF name: renamed, cut out of a fused one, or both.
struct Mapped {
  std::string name;
  std::vector<uint64_t> shape;  ///< after recipe
  Recipe recipe;
  std::string note;  ///< "rows 64..95 of …"
};

struct Mapping {
  std::vector<Mapped> tensors;  ///< names distinct
  std::vector<Drop> drops;
  std::string mtp_hidden;  ///< "pre" or "post" if there is a draft head: by how the source spells it
};

/// Gives every tensor of the source its CMF name (FORMAT_FACTS §9, oracle/hybrid §2). Sizes of fused tensors must add
/// up exactly, else Bounds naming the tensor.
Mapping map_names(const Source& source, const Family& family, const cmf::Arch& arch, const Layout& layout);

/// Shape as a container can hold it; Unsupported, naming the tensor, beyond six dimensions or 32 bits.
codec::Shape container_shape(const std::vector<uint64_t>& shape, std::string_view name);

}  // namespace cortiq::convert
