#include "engine/expert_choice.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace cortiq::engine {

uint32_t choose_experts(std::span<const float> logits, const float* bias, const std::vector<uint32_t>* admitted,
                        const ExpertRule& rule, std::vector<float>& scratch, uint32_t* ids, float* weights) {
  const auto count = static_cast<uint32_t>(admitted == nullptr ? logits.size() : admitted->size());
  const auto expert = [&](uint32_t i) { return admitted == nullptr ? i : (*admitted)[i]; };
  if (scratch.size() < 2 * size_t{count}) scratch.resize(2 * size_t{count});
  float* score = scratch.data();
  float* selection = score + count;
  // Packed in ascending order, so that a restricted router computes what a cut one does, bit for bit (§11.1).
  for (uint32_t i = 0; i < count; ++i) score[i] = logits[expert(i)];
  if (rule.sigmoid) {
    for (uint32_t i = 0; i < count; ++i) score[i] = kernels::sigmoid_f32(score[i]);
  } else {
    kernels::softmax(score, count);
  }
  for (uint32_t i = 0; i < count; ++i) selection[i] = bias == nullptr ? score[i] : score[i] + bias[expert(i)];

  const uint32_t chosen = std::min(rule.top_k, count);
  float sum = 0;
  for (uint32_t slot = 0; slot < chosen; ++slot) {
    uint32_t best = count;
    for (uint32_t i = 0; i < count; ++i) {
      const bool taken = std::find(ids, ids + slot, expert(i)) != ids + slot;
      // Scores that are not numbers lose to nothing: some expert is always chosen, and its weight carries the NaN on.
      if (!taken && (best == count || selection[i] > selection[best])) best = i;
    }
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
