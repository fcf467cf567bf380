#pragma once
#include <atomic>

#include "base/error.h"

namespace cortiq {

/// A wish to stop, set from a signal handler or another thread and asked for inside long work.
class Cancellation {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  void reset() noexcept { requested_.store(false, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }
  void check() const {
    if (requested()) fail(ErrorKind::Cancelled, "interrupted");
  }

  /// A wish that nobody utters, for callers that do not stop.
  static const Cancellation& never() noexcept {
    static const Cancellation instance;
    return instance;
  }

 private:
  std::atomic<bool> requested_{false};
};

}  // namespace cortiq
