// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_scalar.h"
#include "kernels/elementwise_body.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_scalar() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
