// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_avx2.h"
#include "kernels/attention_body.h"
// clang-format on

namespace cortiq::kernels {

const AttentionKernels& attention_avx2() noexcept { return kAttention; }

}  // namespace cortiq::kernels
