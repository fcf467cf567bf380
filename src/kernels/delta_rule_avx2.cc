// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_avx2.h"
#include "kernels/delta_body.h"
// clang-format on

namespace cortiq::kernels {

const DeltaKernels& delta_avx2() noexcept { return kDelta; }

}  // namespace cortiq::kernels
