#pragma once
#include <cstdint>

namespace cortiq::kernels {

enum class KvType { F32, F16, Q8 };

/// Absolute positions in one page of a KV cache.
inline constexpr uint32_t kKvPage = 64;
/// Positions whose keys lie side by side in a page.
inline constexpr uint32_t kKeyLanes = 16;

}  // namespace cortiq::kernels
