#include "count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> count{0};
}  // namespace

// In a file of its own, so that no compiler sees both sides of a pair at once.
// All forms for single objects are replaced: a sanitizer has its own of each, which would not fit the others here.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size != 0 ? size : 1);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace cortiq::engine {

uint64_t allocations() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace cortiq::engine
