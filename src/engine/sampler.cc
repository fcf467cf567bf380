#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace cortiq::engine {

namespace {

constexpr uint8_t kSeen = 1, kOutput = 2;

uint64_t system_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

uint64_t Random::next() noexcept {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t z = state_;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

void SamplerOptions::check() const {
  // Comparisons are false for NaN, so each demands what is right.
  const auto demand = [](bool right, const char* name, double value, const char* range) {
    if (!right) fail(ErrorKind::Usage, "{} is {}, {} is needed", name, value, range);
  };
  demand(temperature >= 0 && std::isfinite(temperature), "temperature", temperature, "a number from 0 on");
  demand(top_k >= 0, "top_k", static_cast<double>(top_k), "a whole number from 0 on (0: off)");
  demand(top_p > 0 && top_p <= 1, "top_p", top_p, "a number above 0 and up to 1 (1: off)");
  demand(min_p >= 0 && min_p <= 1, "min_p", min_p, "a number from 0 to 1 (0: off)");
  demand(repetition_penalty > 0 && std::isfinite(repetition_penalty), "repetition_penalty", repetition_penalty,
         "a number above 0 (1: off)");
  demand(presence_penalty >= -2 && presence_penalty <= 2, "presence_penalty", presence_penalty,
         "a number from -2 to 2 (0: off)");
}

Sampler::Sampler(const SamplerOptions& options, uint64_t vocab)
    : options_(options), seed_(options.seed ? *options.seed : system_seed()), random_(seed_), seen_(vocab, 0) {
  options.check();
}

void Sampler::saw_prompt(std::span<const uint32_t> ids) {
  for (const uint32_t id : ids) {
    if (seen_[id] == 0) distinct_.push_back(id);
    seen_[id] |= kSeen;
  }
}

void Sampler::saw_output(uint32_t id) {
  if (seen_[id] == 0) distinct_.push_back(id);
  seen_[id] |= kSeen | kOutput;
}

// Once per distinct id; a negative logit is multiplied, so that a penalty never makes an id more likely.
void Sampler::penalise(std::span<float> logits) const noexcept {
  const auto repetition = static_cast<float>(options_.repetition_penalty);
  const auto presence = static_cast<float>(options_.presence_penalty);
  if (repetition == 1.0f && presence == 0.0f) return;
  for (const uint32_t id : distinct_) {
    float& logit = logits[id];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if ((seen_[id] & kOutput) != 0) logit -= presence;
  }
}

uint32_t Sampler::choose(std::span<float> logits) {
  penalise(logits);
  if (greedy()) return static_cast<uint32_t>(kernels::argmax(logits.data(), logits.size()));

  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  candidates_.clear();
  for (uint32_t id = 0; id < logits.size(); ++id) candidates_.push_back({logits[id], id});
  size_t kept = candidates_.size();
  if (options_.top_k > 0 && static_cast<uint64_t>(options_.top_k) < kept) {
    kept = static_cast<size_t>(options_.top_k);
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(kept - 1), candidates_.end(),
                     before);
  }
  std::sort(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(kept), before);

  // Weights relative to the largest: no temperature overflows, the first candidate always weighs 1.
  weights_.resize(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double distance = static_cast<double>(candidates_[i].logit) - static_cast<double>(candidates_[0].logit);
    weights_[i] = kernels::exp_f32(static_cast<float>(std::max(distance / options_.temperature, -1e4)));
    total += static_cast<double>(weights_[i]);
  }
  if (options_.top_p < 1) {
    double sum = 0;
    size_t count = 0;
    while (count < kept && (count == 0 || sum < options_.top_p * total)) sum += static_cast<double>(weights_[count++]);
    kept = count;
    total = sum;
  }
  if (options_.min_p > 0) {
    double sum = 0;
    size_t count = 0;
    while (count < kept && static_cast<double>(weights_[count]) >= options_.min_p) {
      sum += static_cast<double>(weights_[count++]);
    }
    kept = count;
    total = sum;
  }
  const double target = static_cast<double>(random_.uniform()) * total;
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += static_cast<double>(weights_[i]);
    if (target < sum) return candidates_[i].id;
  }
  return candidates_[kept - 1].id;
}

}  // namespace cortiq::engine
