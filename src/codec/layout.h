#pragma once
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/half.h"

// Where the parts of each payload lie (§3.2). Kernels and codecs read payloads through these views only. Pointers have
// no alignment beyond a byte's: the planes follow each other without padding.
namespace cortiq::codec {

inline constexpr uint64_t kGroup = 32;  ///< weights that share a scale

inline uint16_t load16(const uint8_t* at) noexcept {
  uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}
inline uint32_t load32(const uint8_t* at) noexcept {
  uint32_t value;
  std::memcpy(&value, at, 4);
  return value;
}
inline float load_half(const uint8_t* at) noexcept { return f16_to_f32(load16(at)); }

/// q8_row: [int8 rows·cols][f16 rows]
struct Q8RowView {
  const int8_t* q;
  const uint8_t* scale;
  Q8RowView(const uint8_t* p, uint64_t rows, uint64_t cols)
      : q(reinterpret_cast<const int8_t*>(p)), scale(p + rows * cols) {}
};

/// q8_2f: [int8 rows·cols][f16 row scale · rows][f16 column field · cols]
struct Q8TwoFieldView {
  const int8_t* q;
  const uint8_t* row_scale;
  const uint8_t* column_field;
  Q8TwoFieldView(const uint8_t* p, uint64_t rows, uint64_t cols)
      : q(reinterpret_cast<const int8_t*>(p)), row_scale(p + rows * cols), column_field(row_scale + 2 * rows) {}
};

/// q4_block: [16 nibble bytes · groups][f16 · groups], groups of the flattened tensor
struct Q4BlockView {
  const uint8_t* nibbles;
  const uint8_t* scale;
  Q4BlockView(const uint8_t* p, uint64_t elements) : nibbles(p), scale(p + (elements + kGroup - 1) / kGroup * 16) {}
};

/// q4_tiled: per group of a row [f16 scale][16 nibble bytes]
inline constexpr uint64_t kQ4TileBytes = 18;
struct Q4TiledView {
  const uint8_t* tiles;
  explicit Q4TiledView(const uint8_t* p) : tiles(p) {}
};

/// q4tp: [nibbles rows·g·16][f16 lo, f16 step · rows][5-bit codes, ceil(5g/8) bytes a row], g = cols/32
struct Q4tpView {
  const uint8_t* nibbles;
  const uint8_t* ladder;  ///< 4 bytes a row: lo, step
  const uint8_t* codes;
  uint64_t code_bytes;  ///< a row
  Q4tpView(const uint8_t* p, uint64_t rows, uint64_t cols)
      : nibbles(p),
        ladder(p + rows * (cols / kGroup) * 16),
        codes(ladder + 4 * rows),
        code_bytes((5 * (cols / kGroup) + 7) / 8) {}
};

/// vbit, vbit_ro: [bits · rows][f16 scale rows·g][vbit_ro: u32 offset · (rows+1)][packed rows, MSB first]
struct VbitView {
  const uint8_t* bits;
  const uint8_t* scale;
  const uint8_t* offsets;  ///< nullptr for vbit: offsets are the prefix sums of cols·bits/8
  const uint8_t* packed;
  VbitView(const uint8_t* p, uint64_t rows, uint64_t cols, bool with_offsets)
      : bits(p),
        scale(p + rows),
        offsets(with_offsets ? scale + 2 * rows * (cols / kGroup) : nullptr),
        packed(scale + 2 * rows * (cols / kGroup) + (with_offsets ? 4 * (rows + 1) : 0)) {}
};

/// q1: per group of a row [f16 scale][4 sign bytes]
inline constexpr uint64_t kQ1TileBytes = 6;
/// q1s: q1 tiles, then [u32 count] { [u32 flat index][f16 value] }
struct Q1sView {
  const uint8_t* tiles;
  const uint8_t* count;
  const uint8_t* entries;  ///< 6 bytes each, index ascending
  Q1sView(const uint8_t* p, uint64_t rows, uint64_t cols)
      : tiles(p), count(p + rows * (cols / kGroup) * kQ1TileBytes), entries(count + 4) {}
};

/// q1t: per group [f16 scale][7 bytes of base-3 codes], then [u32 row_ptr · (rows+1)] { [u16 column][f16 value] }
inline constexpr uint64_t kQ1tTileBytes = 9;
struct Q1tView {
  const uint8_t* tiles;
  const uint8_t* row_ptr;
  const uint8_t* entries;  ///< 4 bytes each, grouped by row, column ascending
  Q1tView(const uint8_t* p, uint64_t rows, uint64_t cols)
      : tiles(p), row_ptr(p + rows * (cols / kGroup) * kQ1tTileBytes), entries(row_ptr + 4 * (rows + 1)) {}
};

/// The 32 scales a q4tp row may use: t[0] = 2^lo, t[c] = t[c−1]·2^step, in f32, recurrence and not powers (facts §5.6).
/// first and ratio are what the recurrence needs; computed with portable exp2f results equal to the golden list.
struct Q4tpLadder {
  float first, ratio;
};
Q4tpLadder q4tp_ladder(const uint8_t* row_parameters) noexcept;

/// 2^x for an argument that is a half, in the exact results the format was defined with (golden/exp2f_log2f_glibc).
float exp2_of_half(uint16_t half) noexcept;

}  // namespace cortiq::codec
