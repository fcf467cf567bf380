// clang-format off: the lanes come before what is written over them
#include "kernels/elementwise_body.h"
#include "kernels/lanes_avx512.h"
// clang-format on

namespace cortiq::kernels {

const ElementwiseKernels& elementwise_avx512() noexcept { return kElementwise; }

}  // namespace cortiq::kernels
