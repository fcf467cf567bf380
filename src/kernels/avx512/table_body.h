#pragma once
#include "kernels/avx2/shared.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/vectors.h"
#include "kernels/overlay.h"

namespace cortiq::kernels {
namespace CORTIQ_LEVEL {
namespace {

uint32_t tile_limit(uint64_t tokens) noexcept { return tokens <= 8 ? 8 : 6; }

uint64_t token_bytes(Flavour flavour, uint64_t tokens, uint64_t groups) noexcept {
  if (tokens == 1 && flavour == Flavour::Q1t) return (groups + 7) / 8 * kTernaryStepBytes;
  return tokens == 1 && flavour != Flavour::Q1 ? (groups + 3) / 4 * kSingleStepBytes : 40 * groups;
}

// A panel, its scales and a stage are the largest demand: 36 bytes a column rounded up to 512, and 16 KB.
uint64_t scratch_bytes(const Planes& weight, uint64_t) noexcept {
  return (weight.groups + 15) / 16 * 16 * (32 * 32 + 32 * 4) + 16 * 8 * 128;
}

void integer(const IntegerJob& job) noexcept {
  const bool alone = job.tiles[0].tokens == 1 && job.weight->weights != Weights::Q1;
  (job.tile_count > 1 ? panels : alone ? single : few)(job);
  add_overlay<half_value>(job);
}

}  // namespace
}  // namespace CORTIQ_LEVEL

const KernelTable CORTIQ_TABLE = {CORTIQ_LEVEL::tile_limit,
                                  CORTIQ_LEVEL::token_bytes,
                                  CORTIQ_LEVEL::scratch_bytes,
                                  CORTIQ_LEVEL::quantise,
                                  CORTIQ_LEVEL::integer,
                                  avx512::floating,
                                  avx512::widen,
                                  avx2::decode};

}  // namespace cortiq::kernels
