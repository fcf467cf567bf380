#pragma once
// The sparse overlays of q1s and q1t: entries are added to finished sums by ascending column, one fused multiply-add
// each, with x as it was before quantisation. Included by the kernel files; everything is in an anonymous namespace.
#include <cstdint>

#include "kernels/jobs.h"

namespace cortiq::kernels {
namespace {

template <class T>
inline T load_as(const uint8_t* at) {
  T value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

/// Tokens whose chains of multiply-adds run side by side.
inline constexpr uint64_t kOverlayTokens = 8;

/// Entries of one row: their number, and where to go on.
struct OverlayRow {
  const uint8_t* entries;
  uint64_t count;
  const uint8_t* tiles;  ///< Q1s: of the row; the base counted ±scale at an entry's column
  uint64_t first_flat;   ///< Q1s: flat index of the row's first column
};

/// First entry of q1s whose flat index is not below `flat`.
inline uint64_t find_entry(const Planes& w, uint64_t flat) {
  uint64_t low = 0, high = w.entry_count;
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (load_as<uint32_t>(w.entries + 6 * middle) < flat) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

inline OverlayRow overlay_row(const Planes& w, uint64_t row, uint64_t entry) {
  if (w.overlay == Planes::Overlay::Q1t) {
    const uint64_t first = load_as<uint32_t>(w.row_ptr + 4 * row);
    return {w.entries + 4 * first, load_as<uint32_t>(w.row_ptr + 4 * (row + 1)) - first, nullptr, 0};
  }
  uint64_t count = 0;
  const uint64_t end = (row + 1) * w.cols;
  while (entry + count < w.entry_count && load_as<uint32_t>(w.entries + 6 * (entry + count)) < end) ++count;
  return {w.entries + 6 * entry, count, w.codes + row * w.code_stride, row * w.cols};
}

/// HALF converts a stored half, FMA is a fused multiply-add; TOKENS of them from x on.
template <float (*HALF)(const uint8_t*), float (*FMA)(float, float, float), uint64_t TOKENS>
inline void add_entries(const OverlayRow& row, const float* x, uint64_t x_stride, float* y, uint64_t y_stride) {
  float acc[TOKENS];
  for (uint64_t t = 0; t < TOKENS; ++t) acc[t] = y[t * y_stride];
  for (uint64_t e = 0; e < row.count; ++e) {
    uint64_t column;
    float value;
    if (row.tiles == nullptr) {
      const uint8_t* entry = row.entries + 4 * e;
      column = load_as<uint16_t>(entry);
      value = HALF(entry + 2);
    } else {
      const uint8_t* entry = row.entries + 6 * e;
      column = load_as<uint32_t>(entry) - row.first_flat;
      const uint8_t* tile = row.tiles + column / 32 * 6;
      const float scale = HALF(tile);
      value = HALF(entry + 4) - ((tile[2 + column % 32 / 8] >> column % 8 & 1) ? scale : -scale);
    }
    for (uint64_t t = 0; t < TOKENS; ++t) acc[t] = FMA(value, x[t * x_stride + column], acc[t]);
  }
  for (uint64_t t = 0; t < TOKENS; ++t) y[t * y_stride] = acc[t] == acc[t] ? acc[t] : __builtin_nanf("");
}

/// Finishes the outputs of rows at … at + rows of the job, for all tokens.
template <float (*HALF)(const uint8_t*), float (*FMA)(float, float, float)>
inline void add_overlay(const IntegerJob& job, uint64_t at, uint32_t rows) {
  const Planes& w = *job.weight;
  if (w.overlay == Planes::Overlay::None) return;
  const Tile& last = job.tiles[job.tile_count - 1];
  const uint64_t tokens = last.first + last.tokens;
  uint64_t entry = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint64_t index = job.first + at + i, row = job.list ? job.list[index] : index;
    if (w.overlay == Planes::Overlay::Q1s && (i == 0 || job.list)) entry = find_entry(w, row * w.cols);
    const OverlayRow overlay = overlay_row(w, row, entry);
    entry += overlay.count;
    if (overlay.count == 0) continue;
    float* y = job.y + at + i;
    uint64_t t = 0;
    for (; t + kOverlayTokens <= tokens; t += kOverlayTokens) {
      add_entries<HALF, FMA, kOverlayTokens>(overlay, job.x + t * job.x_stride, job.x_stride, y + t * job.y_stride,
                                             job.y_stride);
    }
    for (; t < tokens; ++t) {
      add_entries<HALF, FMA, 1>(overlay, job.x + t * job.x_stride, job.x_stride, y + t * job.y_stride, job.y_stride);
    }
  }
}

}  // namespace
}  // namespace cortiq::kernels
