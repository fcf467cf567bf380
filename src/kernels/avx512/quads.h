#pragma once
// Weights as the batch kernels want them: a quad is a vector of 16 rows × 4 columns of unsigned codes, the eight quads
// of a group belong to the eight dwords of a token's activations.
#include "kernels/avx512/scales.h"
#include "kernels/avx512/signs.h"

namespace cortiq::kernels {
namespace {

/// Four vectors from 16 bytes of each of 16 rows: out[k] = dword k of the rows.
CORTIQ_INLINE void gather_dwords(RowPointers rows, uint64_t offset, zi* out) {
  zi z[4];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; ++i) {
    const auto piece = [&](uint32_t row) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row] + offset));
    };
    z[i] = _mm512_castsi128_si512(piece(i));
    z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x00F0, piece(i + 4));
    z[i] = _mm512_mask_broadcast_i32x4(z[i], 0x0F00, piece(i + 8));
    z[i] = _mm512_mask_broadcast_i32x4(z[i], 0xF000, piece(i + 12));
  }
  const zi a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
  const zi c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

/// Codes whose unpacking goes row by row are first written to a stage, [row][step][64 low][64 high], a chunk of steps
/// at a time; the kernels then read quads from there.
inline constexpr uint32_t kStageSteps = 8;
inline constexpr uint64_t kStageRow = kStageSteps * 128;

struct Stage {
  uint8_t* data;  ///< kBlockRows · kStageRow bytes, 64-byte aligned
  const uint8_t* rows[kBlockRows];
};

CORTIQ_INLINE void place_stage(uint8_t* data, Stage& stage) {
  stage.data = data;
  for (uint32_t r = 0; r < kBlockRows; ++r) stage.rows[r] = data + r * kStageRow;
}

template <Weights W>
inline constexpr bool kStaged = W == Weights::Vbit || W == Weights::Q1t;

template <Weights W>
__attribute__((noinline)) void fill_stage(const Planes& w, const Block& block, uint64_t first_step, uint64_t steps,
                                          uint8_t* data) {
  for (uint32_t r = 0; r < kBlockRows; ++r, data += kStageRow) {
    const uint64_t step_bytes = W == Weights::Vbit ? 16u * block.bits[r] : kStepBytes<W>;
    const uint8_t* at = block.codes[r] + step_bytes * first_step;
    for (uint64_t s = 0; s < steps; ++s, at += step_bytes) {
      const uint64_t left = w.cols - 128 * (first_step + s);
      const Step step = left >= 128 ? unpack<W, true>(at, block.bits[r], 128)
                                    : unpack<W, false>(at, block.bits[r], static_cast<uint32_t>(left));
      _mm512_store_si512(data + 128 * s, step.low);
      _mm512_store_si512(data + 128 * s + 64, step.high);
    }
  }
}

/// The last group of Q8 rows whose columns are no multiple of 32, zero-padded: [row][32].
__attribute__((noinline)) void stage_incomplete(const Block& block, uint64_t column, uint32_t columns, uint8_t* data,
                                                const uint8_t** rows) {
  for (uint32_t r = 0; r < kBlockRows; ++r) {
    rows[r] = data + 32 * r;
    const __m256i v = _mm256_maskz_loadu_epi8(static_cast<__mmask32>((1ull << columns) - 1), block.codes[r] + column);
    _mm256_store_si256(reinterpret_cast<__m256i*>(data + 32 * r), v);
  }
}

/// The quads of one group: `at` is its offset in the rows (Staged: in the stage).
template <Weights W>
CORTIQ_INLINE void group_quads(RowPointers rows, uint64_t at, zi* quad) {
  if constexpr (kNibbles<W>) {
    const zi nibble = _mm512_set1_epi8(15);
    zi n[4];
    gather_dwords(rows, at + (W == Weights::Q4Tiled ? 2 : 0), n);
#pragma GCC unroll 4
    for (uint32_t k = 0; k < 4; ++k) {
      quad[2 * k] = _mm512_and_si512(n[k], nibble);
      quad[2 * k + 1] = _mm512_and_si512(_mm512_srli_epi16(n[k], 4), nibble);
    }
  } else {
    gather_dwords(rows, at, quad);
    gather_dwords(rows, at + (kStaged<W> ? 64 : 16), quad + 4);
    if constexpr (W == Weights::Q8) {
      const zi flip = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 8
      for (uint32_t k = 0; k < 8; ++k) quad[k] = _mm512_xor_si512(quad[k], flip);
    }
  }
}

/// Walks the groups of a block: use(g, quads). The scales of Q1 are written on the way, before their group is used.
template <Weights W, class Use>
CORTIQ_INLINE void for_groups(const Planes& w, const Block& block, uint8_t* stage_data, float* scales, uint64_t stride,
                              const Use& use) {
  zi quad[8];
  if constexpr (W == Weights::Q1) {
    for (uint64_t first = 0; first < w.groups; first += kSignGroups) {
      const uint64_t n = w.groups - first < kSignGroups ? w.groups - first : kSignGroups;
      zi signs[kSignGroups];
      fill_signs(block, first, n, signs, scales, stride);
      for (uint64_t k = 0; k < n; ++k) {
        sign_quads(signs[k], quad);
        use(first + k, quad);
      }
    }
  } else if constexpr (kStaged<W>) {
    Stage stage;
    place_stage(stage_data, stage);
    const uint64_t steps = (w.groups + 3) / 4;
    for (uint64_t step = 0; step < steps; step += kStageSteps) {
      const uint64_t n = steps - step < kStageSteps ? steps - step : kStageSteps;
      fill_stage<W>(w, block, step, n, stage.data);
      const uint64_t first = 4 * step, last = w.groups < 4 * (step + n) ? w.groups : 4 * (step + n);
      for (uint64_t g = first; g < last; ++g) {
        group_quads<W>(stage.rows, (g - first) / 4 * 128 + g % 4 * 16, quad);
        use(g, quad);
      }
    }
  } else {
    constexpr uint64_t kBytes = kStepBytes<W> / 4;
    const uint64_t complete = w.cols / 32;
    for (uint64_t g = 0; g < complete; ++g) {
      group_quads<W>(block.codes, kBytes * g, quad);
      use(g, quad);
    }
    if (complete != w.groups) {
      const uint8_t* rows[kBlockRows];
      stage_incomplete(block, 32 * complete, static_cast<uint32_t>(w.cols % 32), stage_data, rows);
      group_quads<W>(rows, 0, quad);
      use(complete, quad);
    }
  }
}

}  // namespace
}  // namespace cortiq::kernels
