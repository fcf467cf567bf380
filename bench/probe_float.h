#pragma once

namespace cortiq::bench {

/// f32 fused multiply-adds from registers, as a limit for what computes in f32. Return the number done.
double fma_avx2(int rounds);
double fma_avx512(int rounds);

}  // namespace cortiq::bench
