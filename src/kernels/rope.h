#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace cortiq::kernels {

/// What a rotation table is made from (ENGINE_FACTS §5); all frequencies in double.
struct RopeProfile {
  uint32_t rotary = 0;  ///< rotated components of a head, even; 0: no rotation
  double theta = 10000;
  bool yarn = false;
  double yarn_factor = 1, yarn_beta_fast = 32, yarn_beta_slow = 1, yarn_original = 0;
  double attention_factor = 1;            ///< multiplies cos and sin
  std::vector<double> freq_factors = {};  ///< divisors of the frequencies; missing entries are 1
};

/// cos and sin for positions, made by our own double-precision functions and rounded once (decisions 3). Grows by
/// blocks of positions when asked (not on the per-token path once reserved).
class RopeTable {
 public:
  explicit RopeTable(const RopeProfile& profile);
  void reserve(uint64_t positions);
  uint64_t positions() const noexcept;
  uint32_t rotary() const noexcept { return rotary_; }
  const float* cos(uint64_t position) const noexcept;  ///< rotary/2 values
  const float* sin(uint64_t position) const noexcept;
  std::span<const double> frequencies() const noexcept { return frequency_; }

 private:
  uint32_t rotary_;
  double factor_;
  std::vector<double> frequency_;
  std::vector<float> cos_, sin_;
};

/// Rotates `heads` heads of head_dim values in place (half-split pairs, §5.1) for one position.
void apply_rope(float* x, uint32_t heads, uint32_t head_dim, uint64_t position, const RopeTable& table) noexcept;

}  // namespace cortiq::kernels
