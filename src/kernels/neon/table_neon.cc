#include "kernels/neon/kernels.h"
#include "kernels/neon/vectors.h"
#include "kernels/overlay.h"

namespace cortiq::kernels {
namespace neon {
namespace {

uint32_t tile_limit(uint64_t) noexcept { return 4; }

uint64_t token_bytes(Flavour, uint64_t, uint64_t groups) noexcept { return kTokenGroupBytes * groups; }

// A panel of 16 rows, its scales, and a stage of 16 rows × 528 values.
uint64_t scratch_bytes(const Planes& weight, uint64_t) noexcept {
  return weight.groups * (32 * 16 + 16 * 4) + 16 * 528;
}

void integer(const IntegerJob& job) noexcept {
  (job.tiles[0].tokens == 1 ? single : panels)(job);
  add_overlay<half_value>(job);
}

}  // namespace
}  // namespace neon

const KernelTable kNeonKernels = {neon::tile_limit, neon::token_bytes, neon::scratch_bytes, neon::quantise,
                                  neon::integer,    neon::floating,    neon::widen,         neon::decode};

}  // namespace cortiq::kernels
