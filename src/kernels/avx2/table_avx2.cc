#include "kernels/avx2/kernels.h"
#include "kernels/avx2/vectors.h"
#include "kernels/overlay.h"

namespace cortiq::kernels {
namespace avx2 {
namespace {

uint32_t tile_limit(uint64_t) noexcept { return 3; }

uint64_t token_bytes(Flavour, uint64_t tokens, uint64_t groups) noexcept {
  return tokens == 1 ? (groups + 1) / 2 * kPairBytes : kTokenGroupBytes * groups;
}

// A panel of 16 rows in 16 bits, its scales, and a stage of 16 rows × 528 values.
uint64_t scratch_bytes(const Planes& weight, uint64_t) noexcept {
  return weight.groups * (32 * 16 * 2 + 16 * 4) + 16 * 528 * 2;
}

CORTIQ_INLINE float half_value(const uint8_t* at) {
  uint16_t half;
  __builtin_memcpy(&half, at, 2);
  return _cvtsh_ss(half);
}
CORTIQ_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

void integer(const IntegerJob& job) noexcept {
  (job.tiles[0].tokens == 1 ? single : panels)(job);
  add_overlay<half_value, fused>(job);
}

}  // namespace
}  // namespace avx2

const KernelTable kAvx2Kernels = {avx2::tile_limit, avx2::token_bytes, avx2::scratch_bytes, avx2::quantise,
                                  avx2::integer,    avx2::floating,    avx2::widen,         avx2::decode};

}  // namespace cortiq::kernels
