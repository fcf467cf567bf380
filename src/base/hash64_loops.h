#pragma once
#include <cstddef>
#include <cstdint>

// hash64_fold for the instruction sets that this build has files for; see hash64.h.
namespace cortiq {

uint64_t hash64_fold_avx2(const uint8_t* words, uint64_t count, uint64_t first) noexcept;
uint64_t hash64_fold_avx512(const uint8_t* words, uint64_t count, uint64_t first) noexcept;

/// What the definition mixes with: fmix's factors and the salt of a word's index (FORMAT_FACTS §2).
inline constexpr uint64_t kHash64Factor1 = 0xFF51AFD7ED558CCD;
inline constexpr uint64_t kHash64Factor2 = 0xC4CEB9FE1A85EC53;
inline constexpr uint64_t kHash64Salt = 0x9E3779B97F4A7C15;

}  // namespace cortiq
