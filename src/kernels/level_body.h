#pragma once
// What the kernels of all instruction sets have in common. Everything in an anonymous namespace: the object files that
// include this are compiled with flags that no other code may see.
#include "kernels/jobs.h"

#define CORTIQ_INLINE static inline __attribute__((always_inline))

namespace cortiq::kernels {
namespace {

/// A value at any address.
template <class T>
CORTIQ_INLINE T load(const uint8_t* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

/// Calls visit<W>() for a kind of weights. Codes of q4tp are stored as those of q4_block: only their scales are not.
template <class Visit>
CORTIQ_INLINE void for_weights(Weights weights, Visit visit) {
  switch (weights) {
    case Weights::Q8:
      return visit.template operator()<Weights::Q8>();
    case Weights::Q4Block:
    case Weights::Q4tp:
      return visit.template operator()<Weights::Q4Block>();
    case Weights::Q4Tiled:
      return visit.template operator()<Weights::Q4Tiled>();
    case Weights::Vbit:
      return visit.template operator()<Weights::Vbit>();
    case Weights::Q1:
      return visit.template operator()<Weights::Q1>();
    case Weights::Q1t:
      return visit.template operator()<Weights::Q1t>();
  }
}

}  // namespace
}  // namespace cortiq::kernels
