// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_scalar.h"
#include "kernels/attention_body.h"
// clang-format on

namespace cortiq::kernels {

const AttentionKernels& attention_scalar() noexcept { return kAttention; }

}  // namespace cortiq::kernels
