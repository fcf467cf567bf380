#include "base/cpu.h"

#include <cstdlib>
#include <string>

#include "base/error.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cortiq {
namespace {

#if defined(__x86_64__)
uint64_t enabled_state() noexcept {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

std::vector<Isa> detect() {
  std::vector<Isa> found{Isa::Scalar};
  unsigned a, b, c1, d;
  if (!__get_cpuid(1, &a, &b, &c1, &d)) return found;
  const auto has = [](unsigned reg, int bit) { return (reg >> bit & 1) != 0; };
  if (!has(c1, 27)) return found;  // OSXSAVE
  const uint64_t state = enabled_state();
  unsigned b7, c7, d7;
  if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return found;
  const bool avx = (state & 6) == 6 && has(c1, 28);
  if (!avx || !has(c1, 12) || !has(c1, 29) || !has(b7, 5) || !has(b7, 8)) return found;  // FMA, F16C, AVX2, BMI2
  found.push_back(Isa::Avx2);
  unsigned a71, b71, c71, d71;
  if (a >= 1 && __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71) && has(a71, 4)) found.push_back(Isa::AvxVnni);
  const bool zmm = (state & 0xE6) == 0xE6;
  if (!zmm || !has(b7, 16) || !has(b7, 17) || !has(b7, 30) || !has(b7, 31)) return found;  // F, DQ, BW, VL
  found.push_back(Isa::Avx512);
  if (has(c7, 1) && has(c7, 11)) found.push_back(Isa::Avx512Vnni);  // VBMI, VNNI
  return found;
}
#elif defined(__aarch64__)
std::vector<Isa> detect() {
  if ((::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) == 0) return {Isa::Scalar};
  return {Isa::Scalar, Isa::Neon};
}
#else
std::vector<Isa> detect() { return {Isa::Scalar}; }
#endif

constexpr Isa kLevels[] = {Isa::Scalar, Isa::Avx2, Isa::AvxVnni, Isa::Avx512, Isa::Avx512Vnni, Isa::Neon};

Isa choose() {
  const char* wish = std::getenv("CORTIQ_ISA");
  if (wish == nullptr || *wish == 0) return available_isas().back();
  for (const Isa isa : kLevels) {
    if (name(isa) != wish) continue;
    for (const Isa have : available_isas()) {
      if (have == isa) return isa;
    }
    fail(ErrorKind::Usage, "CORTIQ_ISA={}: this processor lacks it; the best it has is {}", wish,
         name(available_isas().back()));
  }
  fail(ErrorKind::Usage, "CORTIQ_ISA={}: unknown; use scalar, avx2, avxvnni, avx512bw, avx512 or neon",
       printable(wish, 40));
}

}  // namespace

std::string_view name(Isa isa) noexcept {
  switch (isa) {
    case Isa::Scalar:
      return "scalar";
    case Isa::Avx2:
      return "avx2";
    case Isa::AvxVnni:
      return "avxvnni";
    case Isa::Avx512:
      return "avx512bw";
    case Isa::Avx512Vnni:
      return "avx512";
    case Isa::Neon:
      return "neon";
  }
  return "?";
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> found = detect();
  return found;
}

Isa active_isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace cortiq
