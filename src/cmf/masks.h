#pragma once
#include "cmf/file.h"

namespace cortiq::cmf {

/// Reads a masks section (§5, FORMAT_FACTS §6) for a model of this arch. `loop_masks`: feature bit 5, without which a
/// mask may not have a row per visit (decisions: loop masks). Bounds for what lies outside the section, Parse for the
/// rest.
Masks parse_masks(Bytes section, const Arch& arch, bool loop_masks, std::string_view what);

/// What default_task says where nothing was chosen (FORMAT_FACTS §13).
inline constexpr const char* kDefaultTask = "general";

/// Size of one mask blob (§5), and its contents: the rows of a mask whose per_visit and has_expert_fields are set.
uint64_t mask_blob_size(const Arch& arch, bool per_visit, bool with_experts);
void read_mask_blob(Mask& mask, Bytes blob, const Arch& arch);

/// True if a mask of the section carries a row per visit of a looped model, which is what feature bit 5 announces.
bool has_visit_rows(const Masks& masks, const Arch& arch);

}  // namespace cortiq::cmf
