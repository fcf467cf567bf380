#include "codec/loops.h"

namespace cortiq::codec {
namespace {

constexpr size_t kLanes = 4;
typedef float F __attribute__((vector_size(16)));
typedef int32_t I __attribute__((vector_size(16)));

F maximum(F a, F b) { return a > b ? a : b; }
F minimum(F a, F b) { return a < b ? a : b; }

F lookup(const float* table, I at) {
  F result;
  for (size_t l = 0; l < kLanes; ++l) result[l] = table[at[l]];
  return result;
}

void narrow(I value, void* out) {
  const int8_t bytes[kLanes] = {static_cast<int8_t>(value[0]), static_cast<int8_t>(value[1]),
                                static_cast<int8_t>(value[2]), static_cast<int8_t>(value[3])};
  __builtin_memcpy(out, bytes, kLanes);
}

void transpose(const float* v, float* columns) {
  for (size_t j = 0; j < 32; ++j) {
    for (size_t l = 0; l < kLanes; ++l) columns[j * kLanes + l] = v[l * 32 + j];
  }
}

}  // namespace
}  // namespace cortiq::codec

#include "codec/loops_body.h"

namespace cortiq::codec {
const Loops& loops_scalar() noexcept { return kLoops; }
}  // namespace cortiq::codec
