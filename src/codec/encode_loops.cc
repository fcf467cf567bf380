#include "codec/encode_loops.h"

#include "base/cpu.h"

namespace cortiq::codec {
namespace {

const EncodeLoops& choose() {
#if defined(__x86_64__)
  if (active_isa() == Isa::Avx512) return encode_loops_avx512();
  if (active_isa() == Isa::Avx2) return encode_loops_avx2();
#endif
  return encode_loops_scalar();
}

}  // namespace

const EncodeLoops& encode_loops() {
  static const EncodeLoops& chosen = choose();
  return chosen;
}

}  // namespace cortiq::codec
