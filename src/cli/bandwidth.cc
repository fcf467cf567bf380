#include "cli/bandwidth.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/error.h"

namespace cortiq::cli {
namespace {

using Words __attribute__((vector_size(16))) = uint64_t;

// Eight independent sums of 16-byte loads: enough in flight that memory is the limit, also on baseline x86-64.
uint64_t sum(const Words* at, size_t count) noexcept {
  Words sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += at[i + k];
  }
  for (size_t k = 1; k < 8; ++k) sums[0] += sums[k];
  return sums[0][0] + sums[0][1];
}

}  // namespace

double read_bandwidth(ThreadPool& pool) {
  constexpr size_t kBytes = size_t{256} << 20;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorKind::Io, "no {} bytes of memory to measure the bandwidth with", kBytes);
  ::madvise(memory, kBytes, MADV_HUGEPAGE);
  const size_t parts = pool.threads(), part = kBytes / parts / sizeof(Words) / 8 * 8;
  auto* words = static_cast<Words*>(memory);
  std::atomic<uint64_t> sink{0};
  pool.run(parts, [&](size_t i) {
    for (size_t k = 0; k < part; ++k) words[i * part + k] = Words{k, k};
  });
  double best = 0;
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(250)) {
    const auto from = std::chrono::steady_clock::now();
    pool.run(parts, [&](size_t i) { sink += sum(words + i * part, part); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    best = std::max(best, static_cast<double>(parts * part * sizeof(Words)) / seconds);
  }
  ::munmap(memory, kBytes);
  return best;
}

}  // namespace cortiq::cli
