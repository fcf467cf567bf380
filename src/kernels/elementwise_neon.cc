// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_neon.h"
#include "kernels/elementwise_body.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_neon() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
