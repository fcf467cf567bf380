#pragma once
#include <span>
#include <string>
#include <vector>

#include "cmf/file.h"

namespace cortiq::cmf {

/// A mask with everything active, to be narrowed.
Mask open_mask(const Arch& arch, bool per_visit, bool with_experts);

/// The rows of a mask from JSON (`mask add --rows`): {"ffn_inactive": {"row": [neurons]}, "ffn_row_index": "layer" or
/// "visit", "heads_inactive": {"layer": [heads]}, "gates_closed": [layers], "experts_routable": {"layer": [experts]},
/// "has_expert_fields": bool}, all optional, or {"blob_hex": the blob of §5, whose length decides whether it has rows
/// per visit and expert rows}. Parse, with the path, for anything else and for numbers outside the model.
Mask mask_from_json(const Json& rows, const Arch& arch, std::string_view what);

/// Rows of a mask as an array holds them (`mask add --ffn`, `--heads`): not 0 = active.
struct MaskRows {
  uint64_t rows = 0, cols = 0;
  std::span<const float> values;  ///< [rows, cols]
};

/// The rows of a mask from arrays: ffn [layers or visits, intermediate], heads [layers, heads]; nullptr: all active.
Mask mask_from_rows(const MaskRows* ffn, const MaskRows* heads, const Arch& arch, std::string_view what);

/// The inactive share of FFN neurons, or of experts where only those are restricted; four digits. Informative (§5.1).
double mask_sparsity(const Mask& mask);

/// What a person should know of a mask: that it leaves everything active, or silences a layer's heads, neurons or
/// experts without closing the layer.
std::vector<std::string> mask_warnings(const Mask& mask);

}  // namespace cortiq::cmf
