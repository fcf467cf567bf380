// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_scalar.h"
#include "kernels/delta_body.h"
// clang-format on

namespace cortiq::kernels {

const DeltaKernels& delta_scalar() noexcept { return kDelta; }

}  // namespace cortiq::kernels
