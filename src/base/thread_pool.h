#pragma once
#include <cstddef>
#include <memory>

#include "base/function_ref.h"

namespace cortiq {

/// A fixed set of threads that runs parallel loops; the only parallel construct of the project.
///
/// The calling thread works too, so a pool of n threads owns n-1. Indices are handed out one by one from a shared
/// counter. run() waits for the pieces that others have begun, not for the others: a worker that the system has taken
/// off its core delays only the piece it holds, and nothing if it holds none. After a loop workers spin for some
/// microseconds and then sleep, and so does a caller that waits for the last piece; of more workers than processors no
/// more are woken than can run. One loop at a time; calls from several threads queue up. A loop must not start another
/// one on the same pool.
class ThreadPool {
 public:
  /// threads ≥ 1; more than the machine has is allowed.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const noexcept;

  /// Calls body(i) once for every i < count and returns when all are done. The first exception of a body is thrown
  /// again here, after the loop; the indices not yet begun are then left out.
  void run(size_t count, FunctionRef<void(size_t)> body);

 private:
  struct State;
  void start();

  size_t threads_;
  std::unique_ptr<State> state_;
};

/// Threads that this process may really use at once: the smallest of its CPU affinity and the CPU quotas of its
/// control groups (rounded down, versions 1 and 2, every level of the path), at least 1.
size_t usable_threads();

}  // namespace cortiq
