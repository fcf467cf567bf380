#include "engine/expert_choice.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace cortiq::engine {

uint32_t choose_experts(std::span<const float> logits, const float* bias, const std::vector<uint32_t>* admitted,
                        const ExpertRule& rule, float* scratch, uint32_t* ids, float* weights) noexcept {
  const auto count = static_cast<uint32_t>(admitted == nullptr ? logits.size() : admitted->size());
  const auto expert = [&](uint32_t i) { return admitted == nullptr ? i : (*admitted)[i]; };
  float* score = scratch;
  float* selection = score + count;
  float* taken = selection + count;
  // Packed in ascending order, so that a restricted router computes what a cut one does, bit for bit (§11.1).
  for (uint32_t i = 0; i < count; ++i) score[i] = logits[expert(i)];
  if (rule.sigmoid) {
    for (uint32_t i = 0; i < count; ++i) score[i] = kernels::sigmoid_f32(score[i]);
  } else {
    kernels::softmax(score, count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    selection[i] = bias == nullptr ? score[i] : score[i] + bias[expert(i)];
    taken[i] = 0;
  }

  const uint32_t chosen = std::min(rule.top_k, count);
  float sum = 0;
  for (uint32_t slot = 0; slot < chosen; ++slot) {
    uint32_t best = count;
    for (uint32_t i = 0; i < count; ++i) {
      // Scores that are not numbers lose to nothing: some expert is always chosen, and its weight carries the NaN on.
      if (taken[i] == 0 && (best == count || selection[i] > selection[best])) best = i;
    }
    taken[best] = 1;
    ids[slot] = expert(best);
    weights[slot] = score[best];
    sum += score[best];
  }
  for (uint32_t slot = 0; slot < chosen; ++slot) {
    if (rule.normalise && sum != 0) weights[slot] /= sum;
    weights[slot] *= rule.scaling;
  }
  return chosen;
}

}  // namespace cortiq::engine
