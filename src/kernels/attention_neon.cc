// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_neon.h"
#include "kernels/attention_body.h"
// clang-format on

namespace cortiq::kernels {

const AttentionKernels& attention_neon() noexcept { return kAttention; }

}  // namespace cortiq::kernels
