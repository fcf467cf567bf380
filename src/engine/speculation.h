#pragma once
#include <array>
#include <cstdint>

#include "engine/decoder.h"
#include "engine/generate.h"

namespace cortiq::engine {

/// Decides with which hidden state an MTP head drafts and whether its drafts are worth verifying. Both only change
/// speed, never an id.
class Speculation {
 public:
  Speculation(const Model& model, MtpChoice choice);

  bool enabled() const noexcept { return choice_ != MtpChoice::Off; }
  /// Both kinds are being compared.
  bool trying() const noexcept { return choice_ == MtpChoice::Auto && !decided_; }
  /// The kind whose draft is verified.
  MtpHidden kind() const noexcept { return kind_; }
  /// True if the next step should verify drafts rather than decode plainly.
  bool verify() const noexcept;

  /// One id that the head predicted, fed with this kind.
  void compared(MtpHidden kind, bool right) noexcept;
  /// One step's time and the ids it gave.
  void timed(bool verified, double seconds, uint64_t ids) noexcept;

 private:
  static constexpr uint64_t kTrials = 32, kProbe = 8, kPeriod = 256;

  MtpChoice choice_;
  MtpHidden kind_ = MtpHidden::Post;
  bool decided_ = false;
  uint64_t steps_ = 0;
  std::array<uint64_t, 2> tried_{}, right_{};  // by MtpHidden
  std::array<double, 2> seconds_per_id_{};     // [verified]; smoothed; 0: not measured yet
};

}  // namespace cortiq::engine
