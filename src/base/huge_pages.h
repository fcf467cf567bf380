#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace cortiq {

/// Asks the system to back memory that is about to be filled for the first time with huge pages: one fault where there
/// would be 512, each of which costs more than writing its page. A hint; small or unaligned parts stay as they are.
inline void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 4096;
  constexpr size_t kWorthwhile = size_t{1} << 20;
  if (bytes < kWorthwhile) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory), first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t last = (begin + bytes) / kPage * kPage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

/// Where large blocks begin and end at huge pages, so that all of a table lies in them, not just the middle.
template <class T>
struct HugeAllocator {
  using value_type = T;

  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) noexcept {}

  T* allocate(size_t count) {
    if (count > SIZE_MAX / 2 / sizeof(T)) throw std::bad_array_new_length();
    const size_t bytes = count * sizeof(T);
    if (bytes < kHugePage / 2) return static_cast<T*>(::operator new(bytes));
    const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = ::operator new (whole, std::align_val_t{kHugePage});
    advise_huge_pages(memory, whole);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) noexcept {
    if (count * sizeof(T) < kHugePage / 2) return ::operator delete(memory);
    ::operator delete (memory, std::align_val_t{kHugePage});
  }
  friend bool operator==(HugeAllocator, HugeAllocator) noexcept { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
};

template <class T>
using HugeVector = std::vector<T, HugeAllocator<T>>;

}  // namespace cortiq
