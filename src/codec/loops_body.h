// The body of loops_*.cc: each file defines its vectors and the primitives below and includes this once.
// Everything has internal linkage, so that no function compiled with instruction-set flags can be picked by the linker
// for the rest of the program. Arithmetic on vectors is the compilers' own; the primitives are what they do badly.
//
//   kLanes; F, I                                     floats and int32 in one register
//   F maximum(F, F), minimum(F, F)                   a > b ? a : b and a < b ? a : b
//   F lookup(const float table[32], I at)
//   void narrow(I value, void* out)                  the low byte of each lane
//   void transpose(const float* v, float* columns)   kLanes tiles of 32 into [32][kLanes]

namespace cortiq::codec {
namespace {

typedef uint16_t __attribute__((aligned(1), may_alias)) Half;  // stands at any address in a payload

constexpr float kRounder = 12582912.0f;  // 1.5·2^23: adding it rounds |x| < 2^22 to nearest even, in the low bits

F load(const float* at) {
  F value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
void store(float* at, F value) { __builtin_memcpy(at, &value, sizeof value); }
F all(float value) { return value - F{}; }
I all(int32_t value) { return value - I{}; }
I bits(F value) { return reinterpret_cast<I>(value); }
F from_bits(I value) { return reinterpret_cast<F>(value); }
uint32_t bits(float value) { return __builtin_bit_cast(uint32_t, value); }
float from_bits(uint32_t value) { return __builtin_bit_cast(float, value); }

// Rounding before or after clamping gives the same, because the bounds are integers and rounding is monotone.
F clamp(F x, float low, float high) { return minimum(maximum(x, all(low)), all(high)); }
I rounded_bits(F x) { return bits(x + kRounder); }  // the integer is in the low bits, as two's complement

uint32_t largest_magnitude(const float* v, size_t n) {
  const size_t whole = n - n % kLanes;
  I most = {};
  for (size_t i = 0; i < whole; i += kLanes) {
    const I magnitude = bits(load(v + i)) & 0x7FFFFFFF;
    most = magnitude > most ? magnitude : most;
  }
  uint32_t result = 0;
  for (size_t l = 0; l < kLanes; ++l) {
    const uint32_t lane = static_cast<uint32_t>(most[l]);
    result = lane > result ? lane : result;
  }
  for (size_t i = whole; i < n; ++i) {
    const uint32_t magnitude = bits(v[i]) & 0x7FFFFFFF;
    result = magnitude > result ? magnitude : result;
  }
  return result;
}

uint32_t half_bits(float value) {
  const uint32_t b = bits(value), magnitude = b & 0x7FFFFFFF;
  const uint32_t normal = ((magnitude + 0xFFF + (magnitude >> 13 & 1)) >> 13) - (112u << 10);
  const uint32_t full = (magnitude & 0x7FFFFF) | 0x800000, exponent = magnitude >> 23;
  const uint32_t shift = exponent < 101 ? 25 : exponent > 125 ? 1 : 126 - exponent;
  const uint32_t subnormal = (full >> shift) + (full >> (shift - 1) & 1);
  const uint32_t finite = magnitude >= 0x38800000 ? normal : subnormal;
  return (b >> 16 & 0x8000) | (magnitude >= 0x47800000 ? uint32_t{kInfiniteHalf} : finite);
}

bool to_half(const float* v, size_t n, uint16_t* out) {
  uint32_t infinite = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t half = half_bits(v[i]);
    infinite |= (half & kInfiniteHalf) == kInfiniteHalf;
    out[i] = static_cast<uint16_t>(half);
  }
  return infinite != 0;
}

bool to_bf16(const float* v, size_t n, uint16_t* out) {
  uint32_t infinite = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t b = bits(v[i]);
    const uint32_t rounded = (b + 0x7FFF + (b >> 16 & 1)) >> 16;
    infinite |= (rounded & 0x7F80) == 0x7F80;
    out[i] = static_cast<uint16_t>(rounded);
  }
  return infinite != 0;
}

void quantise8(const float* v, size_t n, float scale, float low, int8_t* q) {
  const size_t whole = n - n % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    narrow(rounded_bits(clamp(load(v + i) / scale, low, 127)), q + i);
  }
  for (size_t i = whole; i < n; ++i) {
    float x = v[i] / scale;
    x = x < low ? low : x > 127 ? 127 : x;
    q[i] = static_cast<int8_t>(bits(x + kRounder));
  }
}

void divide(const float* v, const float* by, size_t n, float* x) {
  const size_t whole = n - n % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) store(x + i, load(v + i) / load(by + i));
  for (size_t i = whole; i < n; ++i) x[i] = v[i] / by[i];
}

void add_squares(const float* v, size_t n, double* sum) {
  for (size_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(v[i]);
    sum[i] += value * value;
  }
}

void from_half(const uint8_t* halves, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t half = reinterpret_cast<const Half*>(halves)[i];
    const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7FFFu;
    const uint32_t normal = (magnitude << 13) + (magnitude < 0x7C00 ? 112u << 23 : 224u << 23);
    const uint32_t subnormal = bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
    const uint32_t small = 0u - uint32_t{magnitude < 0x0400};  // a mask: a choice would keep the loop from vectorising
    out[i] = from_bits(sign | (subnormal & small) | (normal & ~small));
  }
}

// kLanes tiles (fewer at the end: filled with zeros), element by element.
void to_columns(const float* v, size_t tiles, float* columns) {
  if (tiles >= kLanes) {
    transpose(v, columns);
    return;
  }
  float filled[32 * kLanes] = {};
  __builtin_memcpy(filled, v, tiles * 32 * sizeof(float));
  transpose(filled, columns);
}

I largest_of_tiles(const float* columns) {
  I most = {};
  for (size_t j = 0; j < 32; ++j) {
    const I magnitude = bits(load(columns + j * kLanes)) & 0x7FFFFFFF;
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

// Half patterns of S(largest / 7): at least 2^-14, so the subnormals of half with their other rounding never occur.
I scale_halves(I largest) {
  const I x = bits(from_bits(largest) / 7);
  const I rounded = ((x + 0xFFF + (x >> 13 & 1)) >> 13) - (112 << 10);
  const I half = x < 0x38800000 ? all(0x0400) : rounded;
  return half > kInfiniteHalf ? all(kInfiniteHalf) : half;
}

// The nibbles of element(j) for j < 32 of each lane, written to tiles `stride` bytes apart.
template <class Element>
void store_nibbles(Element element, size_t tiles, uint8_t* nibbles, size_t stride) {
  int32_t words[4][kLanes];
  for (size_t w = 0; w < 4; ++w) {
    I word = {};
    for (size_t i = 0; i < 8; ++i) {
      word |= ((rounded_bits(clamp(element(8 * w + i), -8, 7)) + 8) & 15) << static_cast<int>(4 * i);
    }
    __builtin_memcpy(words[w], &word, sizeof word);
  }
  for (size_t l = 0; l < tiles; ++l) {
    const int32_t tile[4] = {words[0][l], words[1][l], words[2][l], words[3][l]};
    __builtin_memcpy(nibbles + stride * l, tile, sizeof tile);
  }
}

bool quantise4(const float* v, size_t groups, uint8_t* scale, size_t scale_stride, uint8_t* nibbles,
               size_t nibble_stride) {
  bool infinite = false;
  for (size_t g = 0; g < groups; g += kLanes) {
    float columns[32 * kLanes];
    to_columns(v + 32 * g, groups - g, columns);
    const I half = scale_halves(largest_of_tiles(columns));
    const F s = from_bits((half << 13) + (112 << 23));  // 2^16 for an infinite one, which is refused
    const size_t lanes = groups - g < kLanes ? groups - g : kLanes;
    store_nibbles([&](size_t j) { return load(columns + j * kLanes) / s; }, lanes, nibbles + g * nibble_stride,
                  nibble_stride);
    for (size_t l = 0; l < lanes; ++l) {
      const uint16_t one = static_cast<uint16_t>(half[l]);
      infinite |= one == kInfiniteHalf;
      __builtin_memcpy(scale + (g + l) * scale_stride, &one, 2);
    }
  }
  return infinite;
}

void q4tp_columns(const float* v, size_t tiles, float* columns, uint16_t* scale) {
  for (size_t t = 0; t < tiles; t += kLanes, columns += 32 * kLanes, scale += kLanes) {
    to_columns(v + 32 * t, tiles - t, columns);
    const I largest = largest_of_tiles(columns);
    const I half = largest == 0 ? I{} : scale_halves(largest);
    for (size_t l = 0; l < kLanes; ++l) scale[l] = static_cast<uint16_t>(half[l]);
  }
}

// The rung that gives each tile the smallest error, of up to four around the nominal one (facts §5.6). A candidate off
// the ladder's end repeats its neighbour, which cannot be strictly better.
I best_rung(const float* columns, I nominal, const Q4tpRow& row) {
  constexpr int kCandidates = 4;
  F rung[kCandidates], inverse[kCandidates], error[kCandidates];
  I at[kCandidates];
  for (int c = 0; c < kCandidates; ++c) {
    const I wish = nominal + (c - 2);
    at[c] = wish < 0 ? I{} : wish > 31 ? all(31) : wish;
    rung[c] = lookup(row.rung, at[c]);
    inverse[c] = lookup(row.inverse, at[c]);
    error[c] = F{};
  }
  for (size_t j = 0; j < 32; ++j) {
    const F v = load(columns + j * kLanes);
    for (int c = 0; c < kCandidates; ++c) {
      const F q = (clamp(v * inverse[c], -8, 7) + kRounder) - kRounder;
      const F d = v - q * rung[c];
      error[c] += d * d;
    }
  }
  I best = at[0];
  F least = error[0];
  for (int c = 1; c < kCandidates; ++c) {
    best = error[c] < least ? at[c] : best;
    least = error[c] < least ? error[c] : least;
  }
  return best;
}

void q4tp_tiles(const float* columns, size_t tiles, const uint16_t* scale, const float* log_scale, const Q4tpRow& row,
                uint8_t* codes, uint8_t* nibbles) {
  for (size_t t = 0; t < tiles; t += kLanes, columns += 32 * kLanes) {
    I live;
    for (size_t l = 0; l < kLanes; ++l) live[l] = scale[t + l] != 0 ? -1 : 0;
    I code = (rounded_bits(clamp((load(log_scale + t) - row.lo) / row.step, 0, 31)) & 31) & live;
    if (row.search) code = best_rung(columns, code, row) & live;
    for (size_t l = 0; l < kLanes; ++l) codes[t + l] = static_cast<uint8_t>(code[l]);

    const F inverse = lookup(row.inverse, code);
    store_nibbles([&](size_t j) { return load(columns + j * kLanes) * inverse; },
                  tiles - t < kLanes ? tiles - t : kLanes, nibbles + 16 * t, 16);
  }
}

void spread_signs(uint32_t signs, float scale, float* out) {
  for (uint32_t i = 0; i < 32; ++i) out[i] = from_bits(bits(scale) ^ (~(signs >> i) << 31));
}

// Where the halves of 32 tiles stand in 144 words.
struct TilePattern {
  uint32_t halves[144] = {};
};
constexpr TilePattern make_tile_pattern() {
  TilePattern out;
  for (size_t byte = 0; byte < 576; byte += 18) out.halves[byte / 4] |= 0xFFFFu << 8 * (byte % 4);
  return out;
}
constexpr TilePattern kTiles = make_tile_pattern();

// A half stands at every ninth place for one, and the places of a vector are a power of two: those of nine vectors are
// all different, and the halves can be looked at together.
bool all_finite(const uint8_t* tiles, size_t blocks) {
  typedef uint32_t Words __attribute__((vector_size(sizeof(I))));
  constexpr uint32_t kExponents = 0x7C007C00, kLowest = 0x04000400, kSigns = 0x80008000;
  static_assert(144 % (9 * kLanes) == 0);
  Words carries = {};
  for (size_t block = 0; block < blocks; ++block, tiles += 576) {
    for (size_t i = 0; i < 144;) {
      Words halves = {};
      for (size_t k = 0; k < 9; ++k, i += kLanes) {
        Words words, places;
        __builtin_memcpy(&words, tiles + 4 * i, sizeof words);
        __builtin_memcpy(&places, kTiles.halves + i, sizeof places);
        halves |= words & places;
      }
      carries |= (halves & kExponents) + kLowest;  // into the sign where the exponent is full
    }
  }
  uint32_t any = 0;
  for (size_t l = 0; l < kLanes; ++l) any |= carries[l];
  return (any & kSigns) == 0;
}

// Several blocks at a time, because what a vector has found is as dear to learn as a block is to look at.
size_t finite_tiles(const uint8_t* tiles, size_t blocks) {
  size_t done = 0;
  while (blocks - done >= 8 && all_finite(tiles + done * 576, 8)) done += 8;
  while (done < blocks && all_finite(tiles + done * 576, 1)) ++done;
  return done;
}

constexpr Loops kLoops = {kLanes,      largest_magnitude, to_half,      to_bf16,    from_half,    quantise8,   divide,
                          add_squares, quantise4,         q4tp_columns, q4tp_tiles, finite_tiles, spread_signs};

}  // namespace
}  // namespace cortiq::codec
