#pragma once
#include <cstddef>
#include <cstdint>

// The inner loops of the codecs, once for each instruction set (loops_*.cc compile one body). All give the
// same bits: every step is one IEEE operation in the order that the definition names. This header is included by files
// with instruction-set flags, so it holds no inline functions and includes none.
namespace cortiq::codec {

inline constexpr uint16_t kInfiniteHalf = 0x7C00;

/// What codes the tiles of a q4tp row (facts §5.6): its ladder, the reciprocals, and the way from a log scale to a
/// rung.
struct Q4tpRow {
  float rung[32], inverse[32];
  float lo, step;  ///< as stored, widened; step > 0
  bool search;
};

struct Loops {
  size_t lanes;  ///< tiles that the q4tp loops handle side by side, at most 16

  /// Bits of the largest |v|; those of infinity or more if a value is not finite.
  uint32_t (*largest_magnitude)(const float* v, size_t n);
  /// out = f32_to_f16(v) of finite values; true if one became infinite.
  bool (*to_half)(const float* v, size_t n, uint16_t* out);
  /// out = f32_to_bf16(v) of finite values; true if one became infinite.
  bool (*to_bf16)(const float* v, size_t n, uint16_t* out);
  /// out = f16_to_f32(halves), which may lie at any address.
  void (*from_half)(const uint8_t* halves, size_t n, float* out);
  /// q = clamp(rne(v / scale), low, 127)
  void (*quantise8)(const float* v, size_t n, float scale, float low, int8_t* q);
  /// x = v / by, elementwise
  void (*divide)(const float* v, const float* by, size_t n, float* x);
  /// sum += v², elementwise in double
  void (*add_squares)(const float* v, size_t n, double* sum);
  /// Per group of 32: scale = S(absmax / 7) as a half, then clamp(rne(v / scale), -8, 7) + 8 as 16 nibble bytes. Groups
  /// lie scale_stride and nibble_stride bytes apart. True if a scale is infinite.
  bool (*quantise4)(const float* v, size_t groups, uint8_t* scale, size_t scale_stride, uint8_t* nibbles,
                    size_t nibble_stride);
  /// Turns the tiles of a q4tp row into blocks of `lanes` tiles, element by element: columns[block][32][lane], the last
  /// block filled with zeros. scale: half pattern of S(absmax / 7) for each lane, 0 for a tile of zeros.
  void (*q4tp_columns)(const float* v, size_t tiles, float* columns, uint16_t* scale);
  /// Codes (one a byte, filled up to whole blocks) and nibbles of these tiles; log_scale = log2f of their scales.
  void (*q4tp_tiles)(const float* columns, size_t tiles, const uint16_t* scale, const float* log_scale,
                     const Q4tpRow& row, uint8_t* codes, uint8_t* nibbles);
  /// Of blocks of 32 tiles of 18 bytes, each beginning with a half: how many there are before one with a half that is
  /// not finite.
  size_t (*finite_tiles)(const uint8_t* tiles, size_t blocks);
  /// out = bit i of `signs` ? scale : -scale, for 32 elements
  void (*spread_signs)(uint32_t signs, float scale, float* out);
};

/// The loops of the active instruction set.
const Loops& loops();
/// Those of one level, for tests and the choice above; avx ones on x86-64 only.
const Loops& loops_scalar() noexcept;
const Loops& loops_avx2() noexcept;
const Loops& loops_avx512() noexcept;

}  // namespace cortiq::codec
