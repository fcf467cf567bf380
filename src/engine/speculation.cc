#include "engine/speculation.h"

namespace cortiq::engine {

Speculation::Speculation(const Model& model, MtpChoice choice)
    : choice_(model.mtp() == nullptr ? MtpChoice::Off : choice) {
  const bool pre =
      choice == MtpChoice::Pre || (choice == MtpChoice::Auto && model.arch().mtp && model.arch().mtp->hidden == "pre");
  kind_ = pre ? MtpHidden::Pre : MtpHidden::Post;
}

bool Speculation::verify() const noexcept {
  if (choice_ != MtpChoice::Auto) return enabled();
  // Every kPeriod steps begin with kProbe verified and kProbe plain ones; the rest goes to the faster way.
  const uint64_t phase = steps_ % kPeriod;
  if (phase < kProbe) return true;
  if (phase < 2 * kProbe) return false;
  return seconds_per_id_[1] <= seconds_per_id_[0];
}

void Speculation::compared(MtpHidden kind, bool right) noexcept {
  const auto mine = static_cast<size_t>(kind_), other = 1 - mine;
  ++tried_[static_cast<size_t>(kind)];
  right_[static_cast<size_t>(kind)] += right;
  if (!trying() || tried_[0] < kTrials || tried_[1] < kTrials) return;
  decided_ = true;
  if (right_[other] * tried_[mine] > right_[mine] * tried_[other]) kind_ = static_cast<MtpHidden>(other);
}

void Speculation::timed(bool verified, double seconds, uint64_t ids) noexcept {
  if (ids == 0) return;
  ++steps_;
  // The trial computes the head twice, which is not what is compared here.
  if (trying() && verified) return;
  double& mean = seconds_per_id_[verified];
  const double now = seconds / static_cast<double>(ids);
  mean = mean == 0 ? now : 0.75 * mean + 0.25 * now;
}

}  // namespace cortiq::engine
