#pragma once
#include <cstdint>

namespace cortiq::engine {

/// Allocations of the whole program so far.
uint64_t allocations() noexcept;

}  // namespace cortiq::engine
