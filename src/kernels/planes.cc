#include "kernels/planes.h"

#include <algorithm>

#include "kernels/derived.h"

namespace cortiq::kernels {

using codec::Dtype;
using codec::kGroup;

Planes planes_of(const Matrix& matrix) {
  const uint64_t rows = matrix.rows(), cols = matrix.cols(), groups = (cols + kGroup - 1) / kGroup;
  const uint8_t* p = matrix.payload().data();
  Planes out{};
  out.rows = rows;
  out.cols = cols;
  out.groups = groups;
  out.codes = p;
  switch (matrix.dtype()) {
    case Dtype::Q4Block: {
      const codec::Q4BlockView view(p, rows * cols);
      out.weights = Weights::Q4Block;
      out.code_stride = 16 * groups;
      out.scales = view.scale;
      out.scale_stride = 2 * groups;
      break;
    }
    case Dtype::Q4Tiled:
      out.weights = Weights::Q4Tiled;
      out.code_stride = codec::kQ4TileBytes * groups;
      break;
    case Dtype::Q4tp: {
      const codec::Q4tpView view(p, rows, cols);
      out.weights = Weights::Q4tp;
      out.code_stride = 16 * groups;
      out.scales = view.codes;
      out.scale_stride = view.code_bytes;
      out.ladder = matrix.derived()->ladder.data();
      break;
    }
    case Dtype::Vbit:
    case Dtype::VbitRo: {
      const codec::VbitView view(p, rows, cols, matrix.dtype() == Dtype::VbitRo);
      out.weights = Weights::Vbit;
      out.codes = view.packed;
      out.scales = view.scale;
      out.scale_stride = 2 * groups;
      out.bits = view.bits;
      out.offsets32 = view.offsets;
      if (view.offsets == nullptr) out.offsets64 = matrix.derived()->offsets.data();
      break;
    }
    case Dtype::Q1s: {
      const codec::Q1sView view(p, rows, cols);
      out.overlay = Planes::Overlay::Q1s;
      out.entries = view.entries;
      out.entry_count = codec::load32(view.count);
      [[fallthrough]];
    }
    case Dtype::Q1:
      out.weights = Weights::Q1;
      out.code_stride = codec::kQ1TileBytes * groups;
      break;
    case Dtype::Q1t: {
      const codec::Q1tView view(p, rows, cols);
      out.weights = Weights::Q1t;
      out.code_stride = codec::kQ1tTileBytes * groups;
      out.entry_count = codec::load32(view.row_ptr + 4 * rows);
      out.overlay = out.entry_count ? Planes::Overlay::Q1t : Planes::Overlay::None;
      out.row_ptr = view.row_ptr;
      out.entries = view.entries;
      break;
    }
    default:  // Q8Row, Q8TwoField: their planes begin alike
      out.weights = Weights::Q8;
      out.code_stride = cols;
      out.scales = p + rows * cols;
      out.scale_stride = 2;
      break;
  }
  return out;
}

void fill_block(const IntegerJob& job, uint64_t at, Block& block) noexcept {
  const Planes& w = *job.weight;
  block.rows = static_cast<uint32_t>(std::min<uint64_t>(kBlockRows, job.count - at));
  uint64_t row[kBlockRows];
  for (uint32_t i = 0; i < kBlockRows; ++i) {
    const uint64_t index = job.first + at + std::min(i, block.rows - 1);
    row[i] = job.list ? job.list[index] : index;
    block.codes[i] = w.codes + row[i] * w.code_stride;
    block.scales[i] = w.scales + row[i] * w.scale_stride;
  }
  switch (w.weights) {
    case Weights::Q8:
      __builtin_prefetch(block.scales[0] + 128);  // 64 rows ahead: a line holds the scales of 32
      for (uint32_t i = 0; i < kBlockRows; ++i) block.row_scale[i] = codec::load_half(block.scales[i]);
      break;
    case Weights::Q4tp:
      for (uint32_t i = 0; i < kBlockRows; ++i) {
        block.first[i] = w.ladder[2 * row[i]];
        block.ratio[i] = w.ladder[2 * row[i] + 1];
      }
      break;
    case Weights::Vbit:
      for (uint32_t i = 0; i < kBlockRows; ++i) {
        block.codes[i] = w.codes + (w.offsets32 ? codec::load32(w.offsets32 + 4 * row[i]) : w.offsets64[row[i]]);
        block.bits[i] = w.bits[row[i]];
      }
      break;
    default:
      break;
  }
}

namespace {

void unpack_nibbles(const uint8_t* nibbles, int16_t* codes) noexcept {
  for (int i = 0; i < 16; ++i) {
    codes[2 * i] = static_cast<int16_t>((nibbles[i] & 15) - 8);
    codes[2 * i + 1] = static_cast<int16_t>((nibbles[i] >> 4) - 8);
  }
}

void unpack_vbit(const uint8_t* at, uint32_t bits, uint64_t n, int16_t* codes) noexcept {
  const int middle = (1 << (bits - 1)) - 1;
  uint32_t window = 0, held = 0;
  for (uint64_t i = 0; i < n; ++i) {
    while (held < bits) {
      window = window << 8 | *at++;
      held += 8;
    }
    held -= bits;
    codes[i] = static_cast<int16_t>(static_cast<int>(window >> held & ((1u << bits) - 1)) - middle);
  }
}

void unpack_ternary(const uint8_t* bytes, int16_t* codes) noexcept {
  static constexpr int16_t kValue[3] = {0, 1, -1};
  for (uint32_t j = 0, i = 0; i < 32; ++j) {
    uint32_t byte = bytes[j];
    for (uint32_t k = 0; k < 5 && i < 32; ++k, ++i, byte /= 3) codes[i] = kValue[byte % 3];
  }
}

}  // namespace

void unpack_row(const Planes& w, const Block& block, uint32_t row, int16_t* codes, float* scales) noexcept {
  const uint8_t* at = block.codes[row];
  const uint8_t* scale = block.scales[row];
  switch (w.weights) {
    case Weights::Q8:
      for (uint64_t c = 0; c < w.cols; ++c) codes[c] = static_cast<int8_t>(at[c]);
      for (uint64_t c = w.cols; c < w.groups * kGroup; ++c) codes[c] = 0;
      for (uint64_t g = 0; g < w.groups; ++g) scales[g] = 1;
      break;
    case Weights::Q4Block:
      for (uint64_t g = 0; g < w.groups; ++g) {
        unpack_nibbles(at + 16 * g, codes + kGroup * g);
        scales[g] = codec::load_half(scale + 2 * g);
      }
      break;
    case Weights::Q4Tiled:
      for (uint64_t g = 0; g < w.groups; ++g, at += codec::kQ4TileBytes) {
        scales[g] = codec::load_half(at);
        unpack_nibbles(at + 2, codes + kGroup * g);
      }
      break;
    case Weights::Q4tp: {
      float ladder[32];
      ladder[0] = block.first[row];
      for (int c = 1; c < 32; ++c) ladder[c] = ladder[c - 1] * block.ratio[row];
      for (uint64_t g = 0; g < w.groups; ++g) {
        unpack_nibbles(at + 16 * g, codes + kGroup * g);
        const uint64_t bit = 5 * g, byte = bit / 8;
        const uint32_t next = byte + 1 < w.scale_stride ? scale[byte + 1] : 0;
        scales[g] = ladder[((scale[byte] | next << 8) >> bit % 8) & 31];
      }
      break;
    }
    case Weights::Vbit:
      unpack_vbit(at, block.bits[row], w.cols, codes);
      for (uint64_t g = 0; g < w.groups; ++g) scales[g] = codec::load_half(scale + 2 * g);
      break;
    case Weights::Q1:
      for (uint64_t g = 0; g < w.groups; ++g, at += codec::kQ1TileBytes) {
        scales[g] = codec::load_half(at);
        for (uint32_t i = 0; i < 32; ++i) {
          codes[kGroup * g + i] = static_cast<int16_t>((at[2 + i / 8] >> i % 8 & 1) ? 1 : -1);
        }
      }
      break;
    case Weights::Q1t:
      for (uint64_t g = 0; g < w.groups; ++g, at += codec::kQ1tTileBytes) {
        scales[g] = codec::load_half(at);
        unpack_ternary(at + 2, codes + kGroup * g);
      }
      break;
  }
}

}  // namespace cortiq::kernels
