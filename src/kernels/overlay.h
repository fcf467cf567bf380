#pragma once
// The sparse overlays of q1s and q1t: entries are added to finished sums by ascending column, one fused multiply-add
// each, with x as it was before quantisation. Included by the kernel files; everything is in an anonymous namespace.
#include "kernels/level_body.h"

namespace cortiq::kernels {
namespace {

/// Tokens whose chains of multiply-adds run side by side.
inline constexpr uint64_t kOverlayTokens = 8;

/// First entry of q1s whose flat index is not below `flat`.
inline uint64_t find_entry(const Planes& w, uint64_t flat) {
  uint64_t low = 0, high = w.entry_count;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (load<uint32_t>(w.entries + 6 * middle) < flat) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The entries of a row replace what was decoded.
template <float (*HALF)(const uint8_t*)>
inline void replace_entries(const Planes& w, uint64_t row, float* out) {
  if (w.overlay == Planes::Overlay::Q1t) {
    const uint64_t end = load<uint32_t>(w.row_ptr + 4 * (row + 1));
    for (uint64_t e = load<uint32_t>(w.row_ptr + 4 * row); e < end; ++e) {
      out[load<uint16_t>(w.entries + 4 * e)] = HALF(w.entries + 4 * e + 2);
    }
    return;
  }
  for (uint64_t e = find_entry(w, row * w.cols); e < w.entry_count; ++e) {
    const uint64_t column = load<uint32_t>(w.entries + 6 * e) - row * w.cols;
    if (column >= w.cols) return;
    out[column] = HALF(w.entries + 6 * e + 4);
  }
}

/// Adds the entries of one row to `TOKENS` outputs. HALF converts a stored half. For Q1s `entry` is where the row's
/// entries begin; returned is where they end.
template <float (*HALF)(const uint8_t*), uint64_t TOKENS>
inline uint64_t add_entries(const Planes& w, uint64_t row, uint64_t entry, const float* x, uint64_t x_stride, float* y,
                            uint64_t y_stride) {
  float acc[TOKENS];
  for (uint64_t t = 0; t < TOKENS; ++t) acc[t] = y[t * y_stride];
  const auto add = [&](float value, uint64_t column) {
    for (uint64_t t = 0; t < TOKENS; ++t) acc[t] = __builtin_fmaf(value, x[t * x_stride + column], acc[t]);
  };
  if (w.overlay == Planes::Overlay::Q1t) {
    const uint64_t end = load<uint32_t>(w.row_ptr + 4 * (row + 1));
    for (uint64_t e = load<uint32_t>(w.row_ptr + 4 * row); e < end; ++e) {
      add(HALF(w.entries + 4 * e + 2), load<uint16_t>(w.entries + 4 * e));
    }
  } else {
    const uint64_t first_flat = row * w.cols;
    const uint8_t* tiles = w.codes + row * w.code_stride;
    for (; entry < w.entry_count; ++entry) {
      const uint8_t* at = w.entries + 6 * entry;
      const uint64_t column = load<uint32_t>(at) - first_flat;
      if (column >= w.cols) break;
      const uint8_t* tile = tiles + column / 32 * 6;  // the base counted ±scale here
      const float scale = HALF(tile);
      add(HALF(at + 4) - ((tile[2 + column % 32 / 8] >> column % 8 & 1) ? scale : -scale), column);
    }
  }
  for (uint64_t t = 0; t < TOKENS; ++t) y[t * y_stride] = acc[t] == acc[t] ? acc[t] : __builtin_nanf("");
  return entry;
}

/// Finishes all outputs of a job. Tokens are the outer loop: the activations of a few stay in the cache while all rows
/// pass.
template <float (*HALF)(const uint8_t*)>
inline void add_overlay(const IntegerJob& job) {
  const Planes& w = *job.weight;
  if (w.overlay == Planes::Overlay::None) return;
  const Tile& last = job.tiles[job.tile_count - 1];
  const uint64_t tokens = last.first + last.tokens;
  for (uint64_t t = 0; t < tokens;) {
    const uint64_t step = tokens - t >= kOverlayTokens ? kOverlayTokens : 1;
    const float* x = job.x + t * job.x_stride;
    uint64_t entry = 0;
    for (uint64_t i = 0; i < job.count; ++i) {
      const uint64_t row = job.list ? job.list[job.first + i] : job.first + i;
      if (w.overlay == Planes::Overlay::Q1s && (i == 0 || job.list)) entry = find_entry(w, row * w.cols);
      float* y = job.y + t * job.y_stride + i;
      entry = step == 1 ? add_entries<HALF, 1>(w, row, entry, x, job.x_stride, y, job.y_stride)
                        : add_entries<HALF, kOverlayTokens>(w, row, entry, x, job.x_stride, y, job.y_stride);
    }
    t += step;
  }
}

}  // namespace
}  // namespace cortiq::kernels
