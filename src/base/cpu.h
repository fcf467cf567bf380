#pragma once
#include <string_view>
#include <vector>

namespace cortiq {

/// Instruction-set levels that kernels exist for, in ascending order.
///   Scalar      the definition; any processor
///   Avx2        AVX2, FMA, F16C (and BMI2)
///   AvxVnni     AVX-VNNI beside all of Avx2: "avxvnni"
///   Avx512      F, BW, DQ, VL beside all of Avx2: "avx512bw"
///   Avx512Vnni  VNNI and VBMI beside all of Avx512: "avx512" (decisions 8)
///   Neon        aarch64 with the dot product of int8 (ASIMDDP)
enum class Isa { Scalar, Avx2, AvxVnni, Avx512, Avx512Vnni, Neon };

std::string_view name(Isa isa) noexcept;

/// Levels that this processor and operating system offer (CPUID and XGETBV; the kernel's HWCAP), Scalar first.
const std::vector<Isa>& available_isas();

/// The best level available, or the one that CORTIQ_ISA=scalar|avx2|avxvnni|avx512bw|avx512|neon names; Usage if
/// the processor lacks it or the name is unknown. Read once.
Isa active_isa();

}  // namespace cortiq
