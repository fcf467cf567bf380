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

void integer(const IntegerJob& job) noexcept {
  (job.tiles[0].tokens == 1 ? single : panels)(job);
  add_overlay<half_value>(job);
}

}  // namespace
}  // namespace avx2

const KernelTable kAvx2Kernels = {avx2::tile_limit, avx2::token_bytes, avx2::scratch_bytes, avx2::quantise,
                                  avx2::integer,    avx2::floating,    avx2::widen,         avx2::decode};

}  // namespace cortiq::kernels
