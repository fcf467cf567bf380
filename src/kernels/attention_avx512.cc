// The lanes come before what is written over them.
// clang-format off
#include "kernels/lanes_avx512.h"
#include "kernels/attention_body.h"
// clang-format on

namespace cortiq::kernels {

const AttentionKernels& attention_avx512() noexcept { return kAttention; }

}  // namespace cortiq::kernels
