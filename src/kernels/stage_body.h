#pragma once
// What the levels have in common that stage the codes of a row, a stretch of groups at a time, before they multiply.
#include "kernels/overlay.h"

namespace cortiq::kernels {
namespace {

/// Bytes of a group in the plane of codes; Vbit: four times the row's bits.
template <Weights W>
inline constexpr uint32_t kGroupBytes = W == Weights::Q8        ? 32
                                        : W == Weights::Q4Tiled ? 18
                                        : W == Weights::Q1      ? 6
                                        : W == Weights::Q1t     ? 9
                                                                : 16;
template <Weights W>
inline constexpr bool kNibbles = W == Weights::Q4Tiled || W == Weights::Q4Block || W == Weights::Q4tp;

/// Dtypes whose scales lie among the codes, at the beginning of every group. Of a single token's rows they are gathered
/// a stretch at a time, just before its codes are used: alone they would fetch all of a block's lines from memory.
template <Weights W>
inline constexpr bool kTiles = W == Weights::Q4Tiled || W == Weights::Q1 || W == Weights::Q1t;

inline constexpr uint64_t kStageGroups = 16;                   ///< staged at a time: 512 columns
inline constexpr uint64_t kStageRow = 32 * kStageGroups + 16;  ///< values of a row, with room for the overhang

/// For each byte of base-3 digits, lowest first, its five weights.
struct TernaryTable {
  int8_t at[256][8];
};
constexpr TernaryTable make_ternary() {
  TernaryTable table{};
  for (int byte = 0; byte < 256; ++byte) {
    for (int i = 0, rest = byte; i < 5; ++i, rest /= 3) {
      table.at[byte][i] = static_cast<int8_t>(rest % 3 == 2 ? -1 : rest % 3);
    }
  }
  return table;
}
inline constexpr TernaryTable kTernary = make_ternary();

/// BITS bytes, the first in the lowest bits; put together from whole loads, since a copy through memory would stall on
/// its way back.
template <uint32_t BITS>
CORTIQ_INLINE uint64_t load_first(const uint8_t* at) {
  if constexpr (BITS == 8) return load<uint64_t>(at);
  if constexpr (BITS == 3) return load<uint16_t>(at) | uint64_t{at[2]} << 16;
  if constexpr (BITS == 4) return load<uint32_t>(at);
  if constexpr (BITS == 5) return load<uint32_t>(at) | uint64_t{at[4]} << 32;
  return load<uint32_t>(at) | uint64_t{load<uint16_t>(at + 4)} << 32;
}

/// Calls visit<BITS>() for the bits of a vbit row.
template <class Visit>
CORTIQ_INLINE void for_bits(uint32_t bits, Visit visit) {
  switch (bits) {
    case 3:
      return visit.template operator()<3>();
    case 4:
      return visit.template operator()<4>();
    case 5:
      return visit.template operator()<5>();
    case 6:
      return visit.template operator()<6>();
    default:
      return visit.template operator()<8>();
  }
}

/// What gathers the scales of tiles: those of groups [first, last) of `rows` rows from `row` on.
using TileScales = void (*)(const Block& block, uint32_t row, uint32_t rows, uint64_t tile_bytes, uint64_t first,
                            uint64_t last, float* out);

/// All scales of a block as f32 [group][16]; Q8 has none. HALVES: a plane of halves; RUNGS: ladders and codes; TILES:
/// at the beginning of every tile of so many bytes.
template <void (*HALVES)(const Planes&, const Block&, float*), void (*RUNGS)(const Planes&, const Block&, float*),
          TileScales TILES>
CORTIQ_INLINE void scales_of_block(const Planes& w, const Block& block, float* out) {
  switch (w.weights) {
    case Weights::Q8:
      break;
    case Weights::Q4Block:
    case Weights::Vbit:
      HALVES(w, block, out);
      break;
    case Weights::Q4tp:
      RUNGS(w, block, out);
      break;
    case Weights::Q4Tiled:
      TILES(block, 0, kBlockRows, kGroupBytes<Weights::Q4Tiled>, 0, w.groups, out);
      break;
    case Weights::Q1:
      TILES(block, 0, kBlockRows, kGroupBytes<Weights::Q1>, 0, w.groups, out);
      break;
    case Weights::Q1t:
      TILES(block, 0, kBlockRows, kGroupBytes<Weights::Q1t>, 0, w.groups, out);
      break;
  }
}

/// Decodes a job's rows: decode_block<W>(block, out) sixteen at a time, then what an overlay replaces.
template <float (*HALF)(const uint8_t*), class DecodeBlock>
CORTIQ_INLINE void decode_rows(const IntegerJob& job, float* out, uint64_t pitch, DecodeBlock decode_block) {
  const Planes& w = *job.weight;
  Block block;
  for (uint64_t at = 0; at < job.count; at += kBlockRows, out += kBlockRows * pitch) {
    fill_block(job, at, block);
    for_weights(w.weights, [&]<Weights W>() { decode_block.template operator()<W>(block, out); });
    if (w.overlay == Planes::Overlay::None) continue;
    for (uint32_t i = 0; i < block.rows; ++i) {
      const uint64_t index = job.first + at + i;
      replace_entries<HALF>(w, job.list ? job.list[index] : index, out + pitch * i);
    }
  }
}

}  // namespace
}  // namespace cortiq::kernels
