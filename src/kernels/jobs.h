#pragma once
#include <cstdint>

// What passes between matmul.cc and the kernels of one instruction set. Plain structures without inline functions: the
// kernel files include this header and nothing else of the project, so that no code compiled with their flags can be
// picked by the linker for another file.
namespace cortiq::kernels {

inline constexpr uint32_t kBlockRows = 16;  ///< rows that a kernel takes at once

/// How the codes of a quantised matrix are stored; q8_2f is Q8 once its column field is folded into x, q1s is Q1 with
/// an overlay, vbit_ro is Vbit.
enum class Weights : uint8_t { Q8, Q4Block, Q4Tiled, Q4tp, Vbit, Q1, Q1t };

/// Which arrangement of the int8 activations the kernels of a matrix read. Each has the value that must be added to
/// the codes to make them unsigned: 128, 8, 127, 1, 1.
enum class Flavour : uint8_t { Q8, Q4, Vbit, Q1, Q1t };

/// A quantised matrix [rows × cols] with its planes' addresses.
struct Planes {
  Weights weights;
  uint64_t rows, cols;
  uint64_t groups;       ///< of 32 columns; the last of a Q8 row may be incomplete
  const uint8_t* codes;  ///< row r at codes + r·code_stride (Vbit: see offsets)
  uint64_t code_stride;
  const uint8_t* scales;  ///< Q8: one half a row; Q4Block, Vbit: `groups` halves a row; Q4tp: 5-bit rungs
  uint64_t scale_stride;
  const float* ladder;        ///< Q4tp: first rung and ratio of each row
  const uint8_t* bits;        ///< Vbit: bits of each row
  const uint8_t* offsets32;   ///< vbit_ro: row r begins at codes + u32 r
  const uint64_t* offsets64;  ///< vbit: the same, derived
  enum class Overlay : uint8_t { None, Q1s, Q1t } overlay;
  const uint8_t* entries;  ///< Q1s: [u32 flat index][f16]; Q1t: [u16 column][f16]
  const uint8_t* row_ptr;  ///< Q1t: u32 · (rows + 1)
  uint64_t entry_count;
};

/// Sixteen rows as the kernels see them. Lanes beyond `rows` repeat the last row, so they can be read but not stored.
struct Block {
  uint32_t rows;
  const uint8_t* codes[kBlockRows];
  const uint8_t* scales[kBlockRows];
  float row_scale[kBlockRows];                 ///< Q8
  float first[kBlockRows], ratio[kBlockRows];  ///< Q4tp
  uint8_t bits[kBlockRows];                    ///< Vbit
};

/// Tokens that one pass of a kernel serves: their activations lie together.
struct Tile {
  uint64_t first;  ///< token
  uint32_t tokens;
};

/// Quantises the columns of some groups of a tile (decisions 2) and stores them as the kernels want them.
struct QuantiseJob {
  Flavour flavour;
  uint32_t tokens;                   ///< of the tile
  uint64_t groups;                   ///< of the whole row
  uint64_t first_group, last_group;  ///< to do; first_group is a multiple of 8, last_group too unless it is the end
  const float* x;                    ///< token t's column 32·first_group at x + t·stride, zero-padded to whole groups
  uint64_t stride;
  uint8_t* out;  ///< the tile's buffer
};

struct IntegerJob {
  const Planes* weight;
  const uint32_t* list;   ///< rows to multiply, or nullptr for all
  uint64_t first, count;  ///< part of the list, or rows
  const Tile* tiles;
  uint32_t tile_count;
  const uint8_t* activations;  ///< tile i at activations + tiles[i].first · token_bytes
  uint64_t token_bytes;
  const float* x;  ///< f32 activations [token][cols], for the overlay
  uint64_t x_stride;
  float* y;  ///< row `first + i` of token t at y + t·y_stride + i
  uint64_t y_stride;
  uint8_t* scratch;  ///< scratch_bytes() of the kernel table, 64-byte aligned
};

enum class Format : uint8_t { F32, F16, BF16 };

/// `count` rows of floats, given by address, times all tokens.
struct FloatJob {
  Format format;
  const uint8_t* const* rows;
  uint32_t count;
  uint64_t cols;
  const float* x;
  uint64_t x_stride, tokens;
  float* y;
  uint64_t y_stride;
};

/// The kernels of one instruction set. All are bit-equal to the scalar ones (docs/numerics.md).
struct KernelTable {
  uint32_t (*tile_limit)(uint64_t tokens) noexcept;  ///< most tokens of a tile, when there are so many
  uint64_t (*token_bytes)(Flavour flavour, uint64_t tokens, uint64_t groups) noexcept;  ///< activations of one token
  uint64_t (*scratch_bytes)(const Planes& weight, uint64_t tokens) noexcept;
  void (*quantise)(const QuantiseJob& job) noexcept;
  void (*integer)(const IntegerJob& job) noexcept;
  void (*floating)(const FloatJob& job) noexcept;
  void (*widen)(Format format, const uint8_t* from, uint64_t n, float* to) noexcept;
  /// Decodes the job's rows, row i to out + i·pitch (room for whole groups; q8_2f without its column field). Uses
  /// weight, list, first, count and scratch of the job. nullptr: the codec does it.
  void (*decode)(const IntegerJob& job, float* out, uint64_t pitch) noexcept;
};

extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvxVnniKernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512VnniKernels;
extern const KernelTable kNeonKernels;

/// Rows first + at … of the job as a block.
void fill_block(const IntegerJob& job, uint64_t at, Block& block) noexcept;

}  // namespace cortiq::kernels
