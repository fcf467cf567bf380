#pragma once
#include <vector>

#include "cmf/file.h"

namespace cortiq::cmf {

/// One entry of the deprecated sparse index (§7): what is active in one layer under one task.
struct IndexEntry {
  uint32_t task_id = 0, layer = 0;
  std::vector<uint16_t> groups;  ///< of 32 FFN neurons
  std::vector<uint8_t> heads;
};

/// Reads an index section; Parse for entries that do not lie inside it. It is shown and checked, never used or written.
std::vector<IndexEntry> parse_sparse_index(Bytes section, std::string_view what);

}  // namespace cortiq::cmf
