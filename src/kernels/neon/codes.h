#pragma once
// The codes of one row's group as signed bytes. Those of most dtypes come out of registers; vbit and q1t are staged, a
// stretch of groups at a time.
#include "kernels/neon/vectors.h"
#include "kernels/stage_body.h"

namespace cortiq::kernels {
namespace {

template <Weights W>
inline constexpr bool kStaged = W == Weights::Vbit || W == Weights::Q1t;

struct Codes {
  int8x16_t first, second;  ///< halves of the group; nibbles: even and odd columns
};

CORTIQ_INLINE Codes nibble_codes(const uint8_t* at) {
  const uint8x16_t v = vld1q_u8(at), middle = vdupq_n_u8(8);
  return {vreinterpretq_s8_u8(vsubq_u8(vandq_u8(v, vdupq_n_u8(15)), middle)),
          vreinterpretq_s8_u8(vsubq_u8(vshrq_n_u8(v, 4), middle))};
}

CORTIQ_INLINE Codes sign_codes(const uint8_t* at) {
  static constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const auto half = [&](const uint8_t* p) __attribute__((always_inline)) {
    const uint8x16_t set = vtstq_u8(vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1])), vld1q_u8(kBit));
    return vreinterpretq_s8_u8(vorrq_u8(vmvnq_u8(set), vdupq_n_u8(1)));  // set ? 1 : −1
  };
  return {half(at), half(at + 2)};
}

// Writes up to six values beyond the group; the next group overwrites them.
CORTIQ_INLINE void stage_ternary(const uint8_t* at, int8_t* out) {
#pragma GCC unroll 7
  for (uint32_t j = 0; j < 7; ++j) vst1_s8(out + 5 * j, vld1_s8(kTernary.at[at[j]]));
}

// Eight codes are BITS bytes, most significant bit first. Code i lies in the two bytes from i·BITS/8 on.
template <uint32_t BITS>
struct VbitTable {
  uint8_t bytes[16];
  int16_t shift[8];
};
template <uint32_t BITS>
constexpr VbitTable<BITS> make_vbit() {
  VbitTable<BITS> table{};
  for (uint32_t i = 0; i < 8; ++i) {
    table.bytes[2 * i] = static_cast<uint8_t>(i * BITS / 8 + 1);
    table.bytes[2 * i + 1] = static_cast<uint8_t>(i * BITS / 8);
    table.shift[i] = static_cast<int16_t>(static_cast<int>(BITS + i * BITS % 8) - 16);
  }
  return table;
}
template <uint32_t BITS>
inline constexpr VbitTable<BITS> kVbit = make_vbit<BITS>();

template <uint32_t BITS>
CORTIQ_INLINE void stage_vbit_row(const uint8_t* at, uint64_t groups, int8_t* out) {
  const uint8x16_t bytes = vld1q_u8(kVbit<BITS>.bytes);
  const int16x8_t shift = vld1q_s16(kVbit<BITS>.shift);
  for (uint64_t i = 0; i < 4 * groups; ++i) {
    const uint8x16_t stored = vcombine_u8(vcreate_u8(load_first<BITS>(at + BITS * i)), vdup_n_u8(0));
    const uint16x8_t code = vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(stored, bytes)), shift);
    const uint8x8_t narrow = vand_u8(vmovn_u16(code), vdup_n_u8((1 << BITS) - 1));
    vst1_s8(out + 8 * i, vreinterpret_s8_u8(vsub_u8(narrow, vdup_n_u8(1 << (BITS - 1)))));
  }
}

CORTIQ_INLINE void stage_vbit(const uint8_t* at, uint32_t bits, uint64_t groups, int8_t* out) {
  for_bits(bits, [&]<uint32_t BITS>() { stage_vbit_row<BITS>(at, groups, out); });
}

/// Groups [first, last) of `rows` rows from `row` on, [row][kStageRow]; nothing if W comes out of registers.
template <Weights W>
CORTIQ_INLINE void fill_stage(const Block& block, uint32_t row, uint32_t rows, uint64_t first, uint64_t last,
                              int8_t* out) {
  if constexpr (kStaged<W>) {
    for (uint32_t r = row; r < row + rows; ++r, out += kStageRow) {
      if constexpr (W == Weights::Vbit) {
        stage_vbit(block.codes[r] + first * (4u * block.bits[r]), block.bits[r], last - first, out);
      } else {
        const uint8_t* at = block.codes[r] + first * kGroupBytes<W>;
        for (uint64_t g = 0; g < last - first; ++g, at += kGroupBytes<W>) stage_ternary(at + 2, out + 32 * g);
      }
    }
  }
}

/// Group g of a row; `staged` is where a staged one stands.
template <Weights W>
CORTIQ_INLINE Codes group_codes(const Planes& w, const Block& block, uint32_t row, uint64_t g, const int8_t* staged) {
  if constexpr (kStaged<W>) return {vld1q_s8(staged), vld1q_s8(staged + 16)};
  const uint8_t* at = block.codes[row] + kGroupBytes<W> * g;
  if constexpr (kNibbles<W>) return nibble_codes(at + (W == Weights::Q4Tiled ? 2 : 0));
  if constexpr (W == Weights::Q1) return sign_codes(at + 2);
  const int8_t* codes = reinterpret_cast<const int8_t*>(at);
  if (32 * g + 32 <= w.cols) return {vld1q_s8(codes), vld1q_s8(codes + 16)};
  int8_t rest[32] = {};
  __builtin_memcpy(rest, codes, w.cols - 32 * g);
  return {vld1q_s8(rest), vld1q_s8(rest + 16)};
}

}  // namespace
}  // namespace cortiq::kernels
