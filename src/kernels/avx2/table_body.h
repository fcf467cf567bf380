#pragma once
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/vectors.h"
#include "kernels/overlay.h"

namespace cortiq::kernels {
namespace CORTIQ_LEVEL {
namespace {

uint32_t tile_limit(uint64_t) noexcept { return 3; }

uint64_t token_bytes(Flavour, uint64_t tokens, uint64_t groups) noexcept {
  return tokens == 1 ? (groups + 1) / 2 * kPairBytes : kTokenGroupBytes * groups;
}

// A panel of 16 rows in at most 16 bits, its scales, and a stage of 16 rows × 528 values.
uint64_t scratch_bytes(const Planes& weight, uint64_t) noexcept {
  return weight.groups * (32 * 16 * 2 + 16 * 4) + 16 * 528 * 2;
}

void integer(const IntegerJob& job) noexcept {
  (job.tiles[0].tokens == 1 ? single : panels)(job);
  add_overlay<half_value>(job);
}

}  // namespace
}  // namespace CORTIQ_LEVEL

const KernelTable CORTIQ_TABLE = {CORTIQ_LEVEL::tile_limit,
                                  CORTIQ_LEVEL::token_bytes,
                                  CORTIQ_LEVEL::scratch_bytes,
                                  CORTIQ_LEVEL::quantise,
                                  CORTIQ_LEVEL::integer,
                                  avx2::floating,
                                  avx2::widen,
                                  avx2::decode};

}  // namespace cortiq::kernels
