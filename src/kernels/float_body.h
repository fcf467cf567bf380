#pragma once
// What the kernels of float matrices have in common.
#include "kernels/level_body.h"

namespace cortiq::kernels {
namespace {

/// Bytes of an element.
template <Format F>
inline constexpr uint64_t kElement = F == Format::F32 ? 4 : 2;

/// Calls visit<F>() for a format.
template <class Visit>
CORTIQ_INLINE void for_format(Format format, Visit visit) {
  switch (format) {
    case Format::F32:
      return visit.template operator()<Format::F32>();
    case Format::F16:
      return visit.template operator()<Format::F16>();
    case Format::BF16:
      return visit.template operator()<Format::BF16>();
  }
}

/// Calls tile<R, T>(row, token) for all tiles of R rows and T tokens: two of two, at the end four of one.
template <class Tile>
CORTIQ_INLINE void each_small_tile(const FloatJob& job, Tile tile) {
  const auto rows = [&]<uint32_t T>(uint64_t token) {
    constexpr uint32_t R = T == 1 ? 4 : 2;
    uint32_t row = 0;
    for (; row + R <= job.count; row += R) tile.template operator()<R, T>(row, token);
    for (; row < job.count; ++row) tile.template operator()<1, T>(row, token);
  };
  uint64_t token = 0;
  for (; token + 2 <= job.tokens; token += 2) rows.template operator()<2>(token);
  if (token < job.tokens) rows.template operator()<1>(token);
}

}  // namespace
}  // namespace cortiq::kernels
