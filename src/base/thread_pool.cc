#include "base/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace cortiq {
namespace {

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Longer than the gap between two matrices of a token and than the tail of a loop, shorter than anything that another
// program would notice.
constexpr auto kSpin = std::chrono::microseconds(50);

// Spins until ready() holds; false if it did not in time.
template <class Ready>
bool spin(Ready ready) noexcept {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Sleeps in the kernel while the word holds the value; may return early.
void park(const std::atomic<uint32_t>& word, uint32_t value) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(const std::atomic<uint32_t>& word, size_t sleepers) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, static_cast<int>(std::min<size_t>(sleepers, 1 << 20)), nullptr, nullptr,
          0);
}
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

size_t processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max<size_t>(1, static_cast<size_t>(CPU_COUNT(&set)));
  return std::max<size_t>(1, std::thread::hardware_concurrency());
}

}  // namespace

// The gate: one word that says which loop it is, whether workers may still enter, and how many are inside. A worker
// enters only while the gate is open, so the caller, once all indices are taken, shuts it and waits for those inside; a
// worker that the system did not let run in time finds the gate shut and is missed by nobody.
struct ThreadPool::State {
  static constexpr uint32_t kInside = 0x7FFF, kOpen = 0x8000, kLoop = 0x10000;  // count, flag, unit of the loop number

  std::vector<std::thread> workers;
  size_t useful = 0;  // workers that can run at once beside the caller
  std::mutex callers;
  alignas(64) std::atomic<uint32_t> gate{0};
  alignas(64) std::atomic<size_t> next{0};       // first index nobody has begun
  alignas(64) std::atomic<uint32_t> awake{0};    // workers that are not parked
  alignas(64) std::atomic<uint32_t> emptied{0};  // grows when the last worker has left a shut gate
  size_t count = 0;
  const FunctionRef<void(size_t)>* body = nullptr;
  std::atomic<bool> stopping{false};
  std::mutex failure_lock;
  std::exception_ptr failure;

  void work() {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      try {
        (*body)(i);
      } catch (...) {
        const std::lock_guard lock(failure_lock);
        if (!failure) failure = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }

  // Worker side. `seen` is the loop that this worker has dealt with last.
  static bool calls(uint32_t value, uint32_t seen) noexcept { return (value & kOpen) != 0 && value / kLoop != seen; }

  void wait_for_loop(uint32_t seen) noexcept {
    const auto called = [&] {
      return calls(gate.load(std::memory_order_acquire), seen) || stopping.load(std::memory_order_relaxed);
    };
    // Of more workers than processors the surplus sleeps at once, or it would spin in the place of one that works.
    if (awake.load(std::memory_order_relaxed) <= useful && spin(called)) return;
    awake.fetch_sub(1);  // sequentially consistent with the load below, as open() is: one of the two sees the other
    while (true) {
      const uint32_t value = gate.load();
      if (calls(value, seen) || stopping.load()) break;
      park(gate, value);
    }
    awake.fetch_add(1);
  }

  // True if the worker is inside; `seen` becomes the number of the loop.
  bool enter(uint32_t& seen) noexcept {
    uint32_t value = gate.load(std::memory_order_relaxed);
    do {
      seen = value / kLoop;
      if ((value & kOpen) == 0) return false;
    } while (!gate.compare_exchange_weak(value, value + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }

  void leave() noexcept {
    const uint32_t before = gate.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & (kOpen | kInside)) != 1) return;
    emptied.fetch_add(1);
    if (caller_parked.load()) wake(emptied, 1);
  }

  void worker() {
    uint32_t seen = 0;
    while (true) {
      wait_for_loop(seen);
      if (stopping.load(std::memory_order_acquire)) return;
      if (!enter(seen)) continue;
      work();
      leave();
    }
  }

  // Caller side.
  std::atomic<bool> caller_parked{false};

  void open() noexcept {
    gate.store((gate.load(std::memory_order_relaxed) / kLoop + 1) * kLoop + kOpen);
    const size_t wanted = std::min(count - 1, useful), have = awake.load();
    if (wanted > have) wake(gate, wanted - have);
  }

  void shut() noexcept {
    if ((gate.fetch_and(~kOpen, std::memory_order_acq_rel) & kInside) == 0) return;
    const auto empty = [&] { return (gate.load(std::memory_order_acquire) & kInside) == 0; };
    // A partner that is still busy after this has probably lost its processor: sleeping offers it this one.
    if (spin(empty)) return;
    caller_parked.store(true);
    while (true) {
      const uint32_t value = emptied.load();
      if (empty()) break;
      park(emptied, value);
    }
    caller_parked.store(false);
  }
};

ThreadPool::ThreadPool(size_t threads)
    : threads_(std::clamp<size_t>(threads, 1, State::kInside)), state_(std::make_unique<State>()) {
  state_->useful = std::max<size_t>(1, std::min(threads_, processors()) - 1);
  state_->workers.reserve(threads_ - 1);
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  state_->gate.fetch_add(State::kLoop);  // whoever is about to sleep finds another value
  wake(state_->gate, state_->workers.size());
  for (auto& worker : state_->workers) worker.join();
}

size_t ThreadPool::threads() const noexcept { return threads_; }

// With the first loop and not before: a system that places a new thread looks for an idle processor, one that wakes a
// parked thread may put it on the waker's (on virtual machines it usually does), where it stands in its way until the
// next balancing, milliseconds later.
void ThreadPool::start() {
  for (size_t i = 1; i < threads_; ++i) {
    state_->awake.fetch_add(1);
    try {
      state_->workers.emplace_back([this] { state_->worker(); });
    } catch (const std::system_error&) {  // no more threads to be had: fewer do the same work
      state_->awake.fetch_sub(1);
      return;
    }
  }
}

void ThreadPool::run(size_t count, FunctionRef<void(size_t)> body) {
  State& s = *state_;
  const std::lock_guard lock(s.callers);
  s.count = count;
  s.body = &body;
  s.failure = nullptr;
  s.next.store(0, std::memory_order_relaxed);
  if (threads_ == 1 || count <= 1) {
    s.work();
  } else {
    if (s.workers.empty()) start();
    s.open();
    s.work();
    s.shut();
  }
  if (s.failure) std::rethrow_exception(s.failure);
}

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Quota over period of one control group directory, rounded down; 0 if there is none.
size_t group_quota(const std::string& directory, bool version2) {
  double quota = -1, period = 100000;
  if (version2) {
    std::istringstream line(first_line(directory + "/cpu.max"));
    std::string first;
    line >> first >> period;
    if (first.empty() || first == "max") return 0;
    quota = std::strtod(first.c_str(), nullptr);
  } else {
    quota = std::strtod(first_line(directory + "/cpu.cfs_quota_us").c_str(), nullptr);
    period = std::strtod(first_line(directory + "/cpu.cfs_period_us").c_str(), nullptr);
  }
  if (quota <= 0 || period <= 0) return 0;
  return std::max<size_t>(1, static_cast<size_t>(quota / period));
}

// The smallest quota on the way from a group up to its root.
size_t path_quota(const std::string& root, std::string path, bool version2) {
  size_t best = 0;
  while (true) {
    const size_t here = group_quota(root + path, version2);
    if (here != 0) best = best == 0 ? here : std::min(best, here);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) break;
    path.resize(slash);
  }
  return best;
}

}  // namespace

size_t usable_threads() {
  size_t best = processors();
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "id:controllers:path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    size_t quota = 0;
    if (controllers.empty()) {
      quota = path_quota("/sys/fs/cgroup", path, true);
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      quota = path_quota("/sys/fs/cgroup/cpu", path, false);
      if (quota == 0) quota = path_quota("/sys/fs/cgroup/cpu,cpuacct", path, false);
    }
    if (quota != 0) best = std::min(best, quota);
  }
  return best;
}

}  // namespace cortiq
