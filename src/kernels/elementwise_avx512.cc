// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_avx512.h"
#include "kernels/elementwise_body.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_avx512() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
