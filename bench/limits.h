#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "probe.h"

namespace cortiq::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Does int8 multiply-adds with what a level has for them, and says how many.
inline double multiply_adds(Isa isa, int rounds) {
  switch (isa) {
    case Isa::Avx512Vnni:
      return multiply_avx512vnni(rounds);
    case Isa::Avx512:
      return multiply_avx512(rounds);
    case Isa::AvxVnni:
      return multiply_avxvnni(rounds);
    default:
      return multiply_avx2(rounds);
  }
}

/// What this machine can do at best with a pool's threads: the best of a few passes of each probe.
class Limits {
 public:
  explicit Limits(ThreadPool& pool) : pool_(pool), wide_(active_isa() >= Isa::Avx512), memory_(size_t{512} << 20, 1) {}

  /// Bytes a second that `threads` threads read together from 512 MB.
  double bandwidth(size_t threads) {
    const size_t part = memory_.size() / threads / 512 * 512;
    double best = 0;
    for (int i = 0; i < 8; ++i) {
      const double start = now();
      pool_.run(threads, [&](size_t t) {
        sink_ += wide_ ? read_avx512(&memory_[t * part], part) : read_avx2(&memory_[t * part], part);
      });
      best = std::max(best, static_cast<double>(threads * part) / (now() - start));
    }
    return best;
  }

  /// Multiply-adds of int8 a second, all threads.
  double int8_peak() {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<double> done(pool_.threads());
      const double start = now();
      pool_.run(pool_.threads(), [&](size_t t) { done[t] = multiply_adds(active_isa(), 200000); });
      double sum = 0;
      for (const double one : done) sum += one;
      best = std::max(best, sum / (now() - start));
    }
    return best;
  }

 private:
  ThreadPool& pool_;
  bool wide_;
  std::vector<uint8_t> memory_;
  std::atomic<int64_t> sink_{0};
};

}  // namespace cortiq::bench
