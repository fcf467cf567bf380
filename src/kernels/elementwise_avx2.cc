// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_avx2.h"
#include "kernels/elementwise_body.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_avx2() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
