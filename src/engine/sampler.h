#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cortiq::engine {

/// SplitMix64; uniform() takes 24 bits: u = (z >> 40) / 2^24.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() noexcept;
  float uniform() noexcept { return static_cast<float>(next() >> 40) * 0x1p-24f; }

 private:
  uint64_t state_;
};

/// decisions 32. Off: temperature 0 (greedy), top_k 0, top_p 1, min_p 0, repetition 1, presence 0.
struct SamplerOptions {
  double temperature = 0.7;       ///< ≥ 0; below 1e-6 the largest logit is taken
  int64_t top_k = 40;             ///< ≥ 0
  double top_p = 0.95;            ///< (0, 1]
  double min_p = 0.05;            ///< [0, 1]
  double repetition_penalty = 1;  ///< > 0; over prompt and output, once per distinct id
  double presence_penalty = 0;    ///< [−2, 2]; over output
  std::optional<uint64_t> seed;   ///< absent: from the system; Sampler::seed() tells it

  static SamplerOptions greedy() {
    SamplerOptions options;
    options.temperature = 0;
    return options;
  }
  /// Usage, naming the parameter and its range, for a value that is out of range or not a number.
  void check() const;
};

/// Chooses ids: penalties → temperature → top-k → top-p → min-p, each on the renormalised remainder (Hugging Face's
/// order), then one draw. Candidates are ordered by logit descending, then id ascending; at least one always remains.
/// One per sequence; the same seed gives the same ids.
class Sampler {
 public:
  Sampler(const SamplerOptions& options, uint64_t vocab);

  /// Ids that the repetition penalty counts.
  void saw_prompt(std::span<const uint32_t> ids);
  /// Chooses from logits (changed in place) without noting the id.
  uint32_t choose(std::span<float> logits);
  /// Notes an id as part of the output.
  void saw_output(uint32_t id);

  /// True if the choice is the largest (penalised) logit: speculation may verify it.
  bool greedy() const noexcept { return options_.temperature < 1e-6; }
  uint64_t seed() const noexcept { return seed_; }

 private:
  struct Candidate {
    float logit;
    uint32_t id;
  };
  void penalise(std::span<float> logits) const noexcept;

  SamplerOptions options_;
  uint64_t seed_;
  Random random_;
  std::vector<uint8_t> seen_;       // [vocab]: bit 0 anywhere, bit 1 in the output
  std::vector<uint32_t> distinct_;  // ids with a bit set
  std::vector<Candidate> candidates_;
  std::vector<float> weights_;
};

}  // namespace cortiq::engine
