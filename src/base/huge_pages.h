#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
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

/// Reserves room for `count` elements of an empty vector, in huge pages when there are many.
template <class T>
void reserve_huge(std::vector<T>& out, size_t count) {
  out.reserve(count);
  advise_huge_pages(out.data(), out.capacity() * sizeof(T));
}

}  // namespace cortiq
