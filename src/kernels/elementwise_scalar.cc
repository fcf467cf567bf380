// clang-format off: the lanes come before what is written over them
#include "kernels/elementwise_body.h"
#include "kernels/lanes_scalar.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_scalar() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
