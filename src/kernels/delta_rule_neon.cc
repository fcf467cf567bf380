// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_neon.h"
#include "kernels/delta_body.h"
// clang-format on

namespace cortiq::kernels {

const DeltaKernels& delta_neon() noexcept { return kDelta; }

}  // namespace cortiq::kernels
