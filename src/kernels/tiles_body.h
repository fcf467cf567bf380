#pragma once
#include <cstdint>

// The two small matrix products of attention and the delta rule over Lanes. Each output element has one order of
// operations whatever tile it falls into. Rows lie at multiples of 16 floats, padded with zeros.
namespace cortiq::kernels {
namespace {

constexpr int smaller(int a, int b) noexcept { return a < b ? a : b; }

// Sixteen stored values as f32.
inline Lanes widen(const float* x) noexcept { return load(x); }
inline Lanes widen(const uint16_t* x) noexcept { return load_half(x); }
inline Lanes widen(const int8_t* x) noexcept { return load_codes(x); }

// R·C = 16 dot products; their accumulators are kept in registers as many as fit at a time.
template <int R, int C>
inline void dot_tile(const float* a, uint64_t stride_a, const float* b, uint64_t stride_b, uint64_t width, float* out,
                     uint64_t stride_out) noexcept {
  constexpr int kRows = smaller(R, kTileRows), kColumns = smaller(C, kTileAccumulators / kRows);
  Lanes total[16];
  for (int r0 = 0; r0 < R; r0 += kRows) {
    for (int c0 = 0; c0 < C; c0 += kColumns) {
      Lanes acc[kRows][kColumns];
      for (auto& row : acc) {
        for (Lanes& x : row) x = set(0.0f);
      }
      const float* x = a + static_cast<uint64_t>(r0) * stride_a;
      const float* y = b + static_cast<uint64_t>(c0) * stride_b;
      for (uint64_t k = 0; k < width; k += 16) {
        Lanes left[kRows];
        for (int r = 0; r < kRows; ++r) left[r] = load(x + static_cast<uint64_t>(r) * stride_a + k);
        for (int c = 0; c < kColumns; ++c) {
          const Lanes right = load(y + static_cast<uint64_t>(c) * stride_b + k);
          for (int r = 0; r < kRows; ++r) acc[r][c] = fma(left[r], right, acc[r][c]);
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) total[(r0 + r) * C + c0 + c] = acc[r][c];
      }
    }
  }
  float values[16];
  store(values, sums(total));
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c)
      out[static_cast<uint64_t>(r) * stride_out + static_cast<uint64_t>(c)] = values[r * C + c];
  }
}

/// out[i, j] = a[i]·b[j] by decisions 1 for i < rows and from ≤ j < to, from and to multiples of 16.
inline void dots(const float* a, uint64_t stride_a, uint64_t rows, const float* b, uint64_t stride_b, uint64_t from,
                 uint64_t to, uint64_t width, float* out, uint64_t stride_out) noexcept {
  uint64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    for (uint64_t j = from; j < to; j += 4) {
      dot_tile<4, 4>(a + i * stride_a, stride_a, b + j * stride_b, stride_b, width, out + i * stride_out + j,
                     stride_out);
    }
  }
  for (; i + 2 <= rows; i += 2) {
    for (uint64_t j = from; j < to; j += 8) {
      dot_tile<2, 8>(a + i * stride_a, stride_a, b + j * stride_b, stride_b, width, out + i * stride_out + j,
                     stride_out);
    }
  }
  for (; i < rows; ++i) {
    for (uint64_t j = from; j < to; j += 16) {
      dot_tile<1, 16>(a + i * stride_a, stride_a, b + j * stride_b, stride_b, width, out + i * stride_out + j,
                      stride_out);
    }
  }
}

/// Memory that is wanted soon: a tile asks for a line of it at every step, so that memory works while the tile
/// computes.
struct Ahead {
  const uint8_t* next = nullptr;
  const uint8_t* end = nullptr;

  void some() noexcept {
    if (next >= end) return;
    __builtin_prefetch(next, 0, 2);
    next += 64;
  }
};

/// Calls f(r, c) for the elements of a tile, unrolled, so that they stay in registers.
template <int R, int C, class F>
inline void each_element(F f) noexcept {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) f(r, c);
  }
}

/// acc[r][c] = fma(p[r, j], x(j, c), acc[r][c]) for j = 0 … count−1 ascending.
template <int R, int C, class X>
inline void add_products(const float* p, uint64_t stride_p, uint64_t count, X x, Ahead& ahead,
                         Lanes (&acc)[R][C]) noexcept {
  Ahead wanted = ahead;
  for (uint64_t j = 0; j < count; ++j, ++p) {
    wanted.some();
    Lanes factor[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) factor[r] = set(p[static_cast<uint64_t>(r) * stride_p]);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const Lanes value = x(j, static_cast<uint64_t>(c));
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) acc[r][c] = fma(factor[r], value, acc[r][c]);
    }
  }
  ahead = wanted;
}

template <int R, int C, class Value>
inline void sum_tile(const float* p, uint64_t stride_p, uint64_t count, const Value* v, uint64_t stride_v, float* o,
                     uint64_t stride_o, Ahead& ahead) noexcept {
  const auto at = [=](int r, int c) { return o + static_cast<uint64_t>(r) * stride_o + 16 * c; };
  Lanes acc[R][C];
  each_element<R, C>([&](int r, int c) { acc[r][c] = load(at(r, c)); });
  add_products<R, C>(
      p, stride_p, count, [=](uint64_t j, uint64_t c) { return widen(v + j * stride_v + 16 * c); }, ahead, acc);
  each_element<R, C>([&](int r, int c) { store(at(r, c), acc[r][c]); });
}

template <int R, int C = kTileAccumulators / R, class Value>
inline void sum_rows(const float* p, uint64_t stride_p, uint64_t count, const Value* v, uint64_t stride_v,
                     uint64_t width, float* o, uint64_t stride_o, Ahead& ahead) noexcept {
  uint64_t d = 0;
  for (; d + 16 * C <= width; d += 16 * C) sum_tile<R, C>(p, stride_p, count, v + d, stride_v, o + d, stride_o, ahead);
  if constexpr (C > 1) {
    if (d < width) sum_rows<R, C / 2>(p, stride_p, count, v + d, stride_v, width - d, o + d, stride_o, ahead);
  }
}

/// Calls tile<R>(i) for rows i … i+R−1 until all are done.
template <class Tile>
inline void each_tile(uint64_t rows, Tile tile) noexcept {
  uint64_t i = 0;
  if constexpr (kTileRows >= 4) {
    for (; i + 4 <= rows; i += 4) tile.template operator()<4>(i);
  }
  if constexpr (kTileRows >= 2) {
    for (; i + 2 <= rows; i += 2) tile.template operator()<2>(i);
  }
  for (; i < rows; ++i) tile.template operator()<1>(i);
}

/// o[i, d] += p[i, j]·v[j, d] for j = 0 … count−1 ascending, one fma each; width a multiple of 16.
template <class Value>
inline void accumulate(const float* p, uint64_t stride_p, uint64_t rows, uint64_t count, const Value* v,
                       uint64_t stride_v, uint64_t width, float* o, uint64_t stride_o, Ahead& ahead) noexcept {
  each_tile(rows, [&]<int R>(uint64_t i) {
    sum_rows<R>(p + i * stride_p, stride_p, count, v, stride_v, width, o + i * stride_o, stride_o, ahead);
  });
}
inline void accumulate(const float* p, uint64_t stride_p, uint64_t rows, uint64_t count, const float* v,
                       uint64_t stride_v, uint64_t width, float* o, uint64_t stride_o) noexcept {
  Ahead nothing;
  accumulate(p, stride_p, rows, count, v, stride_v, width, o, stride_o, nothing);
}

}  // namespace
}  // namespace cortiq::kernels
