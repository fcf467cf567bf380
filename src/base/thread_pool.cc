#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
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

// About 30 µs on current machines: longer than the gap between two matrices of a token, shorter than anything a person
// would notice in another program.
constexpr int kSpins = 4000;

// Waits until value differs from `old`: by spinning, then by sleeping in the kernel.
uint64_t wait_for_change(const std::atomic<uint64_t>& value, uint64_t old) noexcept {
  for (int i = 0; i < kSpins; ++i) {
    const uint64_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    pause();
  }
  while (true) {
    value.wait(old, std::memory_order_acquire);
    const uint64_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
  }
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::mutex callers;
  alignas(64) std::atomic<uint64_t> generation{0};  // grows by one a loop
  alignas(64) std::atomic<size_t> next{0};          // first index nobody has begun
  alignas(64) std::atomic<uint64_t> running{0};     // workers still inside the current loop
  size_t count = 0;
  const FunctionRef<void(size_t)>* body = nullptr;
  bool stopping = false;
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

  void worker() {
    uint64_t seen = 0;
    while (true) {
      seen = wait_for_change(generation, seen);
      if (stopping) return;
      work();
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }
};

ThreadPool::ThreadPool(size_t threads) : state_(std::make_unique<State>()) {
  for (size_t i = 1; i < threads; ++i) state_->workers.emplace_back([this] { state_->worker(); });
}

ThreadPool::~ThreadPool() {
  state_->stopping = true;
  state_->generation.fetch_add(1, std::memory_order_release);
  state_->generation.notify_all();
  for (auto& worker : state_->workers) worker.join();
}

size_t ThreadPool::threads() const noexcept { return state_->workers.size() + 1; }

void ThreadPool::run(size_t count, FunctionRef<void(size_t)> body) {
  State& s = *state_;
  const std::lock_guard lock(s.callers);
  s.count = count;
  s.body = &body;
  s.failure = nullptr;
  s.next.store(0, std::memory_order_relaxed);
  if (s.workers.empty() || count <= 1) {
    s.work();
  } else {
    s.running.store(s.workers.size(), std::memory_order_relaxed);
    s.generation.fetch_add(1, std::memory_order_release);
    s.generation.notify_all();
    s.work();
    uint64_t left = s.running.load(std::memory_order_acquire);
    while (left != 0) left = wait_for_change(s.running, left);
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
  size_t best = std::max<size_t>(1, std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) best = std::max<size_t>(1, static_cast<size_t>(CPU_COUNT(&set)));
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
