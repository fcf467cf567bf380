#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace cortiq::engine {

/// How a router's logits become experts and weights (ENGINE_FACTS §7, decisions 6).
struct ExpertRule {
  uint32_t top_k = 1;
  bool sigmoid = false;    ///< scores are sigmoids; otherwise the softmax over the admitted experts
  bool normalise = false;  ///< weights of the chosen are divided by their sum
  float scaling = 1;
};

/// Chooses for one row. `logits` [experts]; `bias` [experts] is added for the selection only, nullptr: none; `admitted`
/// ascending, nullptr: all. Writes min(top_k, admitted) ids and weights in descending order of the selection score
/// (ties: the lower index first) and returns how many. `scratch` holds three floats an expert.
uint32_t choose_experts(std::span<const float> logits, const float* bias, const std::vector<uint32_t>* admitted,
                        const ExpertRule& rule, float* scratch, uint32_t* ids, float* weights) noexcept;

}  // namespace cortiq::engine
