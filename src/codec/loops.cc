#include "codec/loops.h"

#include "base/cpu.h"

namespace cortiq::codec {
namespace {

const Loops& choose() {
#if defined(__x86_64__)
  if (active_isa() >= Isa::Avx512) return loops_avx512();
  if (active_isa() >= Isa::Avx2) return loops_avx2();
#endif
  return loops_scalar();
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

}  // namespace cortiq::codec
