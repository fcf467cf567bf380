#pragma once
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "base/progress.h"
#include "cmf/header.h"
#include "engine/decoder.h"

namespace cortiq::skills {

/// An affine subspace through points: their mean and up to min(rank, points − 1, 8) orthonormal directions of largest
/// spread, by 50 power iterations from the all-ones vector with deflation (FORMAT_FACTS §13).
cmf::Selection fit_subspace(const std::vector<std::vector<float>>& points, uint64_t rank);

struct SelectOptions {
  std::optional<uint64_t> phi_layer;  ///< default: two thirds up the visits
  uint64_t rank = 4;
};

/// The selection of a skill from example conversations ({"messages": […]} rows, decisions 21: trailing assistant
/// messages dropped, rendered with the generation prompt, "prompt": "chat") or plain prompts ({"prompt": …} rows).
/// Usage with fewer than two examples.
cmf::Selection select_from_prompts(engine::Decoder& decoder, const std::vector<Json>& rows,
                                   const SelectOptions& options, Progress& progress, const Cancellation& cancel);

/// The `selection` object of a record (§9).
Json selection_json(const cmf::Selection& selection);

/// One JSON object a line; Parse naming file and line.
std::vector<Json> read_rows(const std::string& path);

}  // namespace cortiq::skills
