#include <algorithm>

#include "codec/exp2_log2.h"
#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/nibbles.h"
#include "codec/rows.h"
#include "codec/scale.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

constexpr int kRungs = 32;

void fill_ladder(Q4tpLadder ladder, float* rung) noexcept {
  rung[0] = ladder.first;
  for (int c = 1; c < kRungs; ++c) rung[c] = rung[c - 1] * ladder.ratio;  // the format's values: not the powers
}

// lo and step of a row whose live tiles have log scales from `lo` to `hi`: the first step of half precision whose 31
// rungs reach `hi` from the rounded `lo`. The step is positive.
struct Ladder {
  uint16_t lo, step;
};
Ladder choose_ladder(float lo, float hi) noexcept {
  const uint16_t lo_half = f32_to_f16(lo);
  const float base = f16_to_f32(lo_half);
  uint16_t step = f32_to_f16(std::max(hi - base, 0.0f) / 31);
  for (int i = 0; i < 64; ++i) {
    const float width = f16_to_f32(step);
    if (width > 0 && base + 31 * width >= hi) break;
    ++step;
  }
  return {lo_half, step};
}

/// Room for one row's intermediate values, reused from row to row.
struct Scratch {
  std::vector<float> columns, log_scale;
  std::vector<uint16_t> scale;
  std::vector<uint8_t> codes;
  Scratch(size_t tiles, size_t lanes) {
    const size_t filled = (tiles + lanes - 1) / lanes * lanes;
    columns.resize(filled * kGroup);
    log_scale.resize(filled);
    scale.resize(filled);
    codes.resize(filled);
  }
};

// Code t in bits 5t … 5t+4, lowest bit first.
void pack_codes(const uint8_t* codes, size_t count, uint8_t* out) noexcept {
  uint32_t held = 0, bits = 0;
  for (size_t t = 0; t < count; ++t) {
    held |= uint32_t{codes[t]} << bits;
    for (bits += 5; bits >= 8; bits -= 8, held >>= 8) *out++ = static_cast<uint8_t>(held);
  }
  if (bits != 0) *out = static_cast<uint8_t>(held);
}

uint32_t code_at(const uint8_t* codes, uint64_t t) noexcept {
  const uint64_t bit = 5 * t;
  uint32_t word = codes[bit / 8];
  if (bit % 8 > 3) word |= uint32_t{codes[bit / 8 + 1]} << 8;
  return word >> bit % 8 & 31;
}

/// q4tp: nibbles of q4_tiled whose scale is one of 32 rungs 2^(lo + code·step) of the row (facts §5.6).
class Q4tp final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q4tp; }
  std::string_view name() const noexcept override { return "q4tp"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, true); }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    const uint64_t tiles = shape.cols() / kGroup;
    return checked_multiply(shape.rows(), tiles * 16 + 4 + (5 * tiles + 7) / 8);
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const Q4tpView view(payload.data(), shape.rows(), shape.cols());
    for (uint64_t r = 0; r < shape.rows() && problems.size() < limit; ++r) {
      const uint8_t* at = view.ladder + 4 * r;
      if (!is_finite_half(load16(at)) || !is_finite_half(load16(at + 2))) {
        problems.push_back(
            {r, fmt::format("row {}: its ladder begins at {} and steps by {}", r, load_half(at), load_half(at + 2))});
        continue;
      }
      const float lowest = load_half(at), highest = lowest + (kRungs - 1) * load_half(at + 2);
      if (lowest < 127 && highest < 127) continue;  // far enough from 2^128 for every rounding on the way
      float rung[kRungs];
      fill_ladder(q4tp_ladder(at), rung);
      if (!is_finite(rung[kRungs - 1])) {
        problems.push_back({r, fmt::format("row {}: its ladder from 2^{} in steps of 2^{} leaves single precision", r,
                                           load_half(at), load_half(at + 2))});
      }
    }
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions& options,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    const uint64_t rows = shape.rows(), cols = shape.cols(), tiles = cols / kGroup;
    std::vector<uint8_t> out(*nbytes(shape));
    uint8_t* ladders = out.data() + rows * tiles * 16;
    uint8_t* codes = ladders + 4 * rows;
    const uint64_t code_bytes = (5 * tiles + 7) / 8;
    Refusals refusals;
    for_blocks(values, cols, pool, refusals, [&](uint64_t first, uint64_t last) {
      Scratch scratch(tiles, loops().lanes);
      for (uint64_t r = first; r < last; ++r) {
        encode_row(values.data() + r * cols, tiles, options.scale_search, scratch, out.data() + r * tiles * 16,
                   ladders + 4 * r, codes + r * code_bytes);
        const auto infinite = std::find(scratch.scale.begin(), scratch.scale.end(), kInfiniteHalf);
        if (infinite != scratch.scale.end()) {
          refusals.overflow(r * cols + static_cast<uint64_t>(infinite - scratch.scale.begin()) * kGroup);
        }
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t tiles = shape.cols() / kGroup;
    const Q4tpView view(payload.data(), shape.rows(), shape.cols());
    for (uint64_t r = first; r < first + count; ++r) {
      float rung[kRungs];
      fill_ladder(q4tp_ladder(view.ladder + 4 * r), rung);
      const uint8_t* codes = view.codes + r * view.code_bytes;
      for (uint64_t t = 0; t < tiles; ++t, out += kGroup) {
        decode_nibbles(view.nibbles + (r * tiles + t) * 16, rung[code_at(codes, t)], out);
      }
    }
  }

 private:
  static void encode_row(const float* v, uint64_t tiles, bool search, Scratch& s, uint8_t* nibbles, uint8_t* ladder,
                         uint8_t* codes) {
    const Loops& run = loops();
    run.q4tp_columns(v, tiles, s.columns.data(), s.scale.data());

    // A tile of zeros takes no part in the choice of the ladder; a row of nothing else is given that of 2^-14.
    const float* log2 = log2_of_halves();
    float lo = 65504, hi = -65504;
    for (uint64_t t = 0; t < tiles; ++t) {
      const uint16_t scale = s.scale[t];
      if (scale == kInfiniteHalf) return;  // refused by the caller
      s.log_scale[t] = log2[scale];
      if (scale == 0) continue;
      lo = std::min(lo, s.log_scale[t]);
      hi = std::max(hi, s.log_scale[t]);
    }
    if (hi < lo) lo = hi = -14;
    const Ladder chosen = choose_ladder(lo, hi);
    store16(ladder, chosen.lo);
    store16(ladder + 2, chosen.step);

    Q4tpRow row;
    row.lo = f16_to_f32(chosen.lo);
    row.step = f16_to_f32(chosen.step);
    row.search = search;
    fill_ladder(q4tp_ladder(ladder), row.rung);
    for (int c = 0; c < kRungs; ++c) row.inverse[c] = 1 / row.rung[c];
    run.q4tp_tiles(s.columns.data(), tiles, s.scale.data(), s.log_scale.data(), row, s.codes.data(), nibbles);
    pack_codes(s.codes.data(), tiles, codes);
  }
};

}  // namespace

const Codec& q4tp_codec() noexcept {
  static const Q4tp codec;
  return codec;
}

}  // namespace cortiq::codec
