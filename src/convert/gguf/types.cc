#include "convert/gguf/types.h"

#include <algorithm>
#include <cstring>

#include "base/half.h"

namespace cortiq::convert::gguf {
namespace {

uint16_t load16(const uint8_t* at) noexcept {
  uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}
float half(const uint8_t* at) noexcept { return f16_to_f32(load16(at)); }
float to_float(int value) noexcept { return static_cast<float>(value); }

void f32(const uint8_t* b, float* out) { std::memcpy(out, b, 4); }
void f16(const uint8_t* b, float* out) { *out = half(b); }
void bf16(const uint8_t* b, float* out) { *out = bf16_to_f32(load16(b)); }

// Blocks of 32: elements 0…15 in the low, 16…31 in the high nibbles.
template <class Value>
void nibbles(const uint8_t* q, float* out, Value value) {
  for (int j = 0; j < 16; ++j) {
    out[j] = value(q[j] & 15, j);
    out[j + 16] = value(q[j] >> 4, j + 16);
  }
}

void q8_0(const uint8_t* b, float* out) {
  const float d = half(b);
  for (int i = 0; i < 32; ++i) out[i] = d * to_float(static_cast<int8_t>(b[2 + i]));
}
void q4_0(const uint8_t* b, float* out) {
  const float d = half(b);
  nibbles(b + 2, out, [d](int q, int) { return d * to_float(q - 8); });
}
void q4_1(const uint8_t* b, float* out) {
  const float d = half(b), m = half(b + 2);
  nibbles(b + 4, out, [d, m](int q, int) { return d * to_float(q) + m; });
}
int fifth_bit(const uint8_t* high, int element) noexcept { return (high[element / 8] >> element % 8 & 1) << 4; }
void q5_0(const uint8_t* b, float* out) {
  const float d = half(b);
  nibbles(b + 6, out, [d, b](int q, int e) { return d * to_float((q | fifth_bit(b + 2, e)) - 16); });
}
void q5_1(const uint8_t* b, float* out) {
  const float d = half(b), m = half(b + 2);
  nibbles(b + 8, out, [d, m, b](int q, int e) { return d * to_float(q | fifth_bit(b + 4, e)) + m; });
}

constexpr int kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
void iq4_nl(const uint8_t* b, float* out) {
  const float d = half(b);
  nibbles(b + 2, out, [d](int q, int) { return d * to_float(kNonLinear[q]); });
}

// Super-blocks of 256.
int two_bits(const uint8_t* qs, int e) noexcept { return qs[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3; }

void q2_k(const uint8_t* b, float* out) {
  const float d = half(b + 80), m = half(b + 82);
  for (int e = 0; e < 256; ++e) {
    const int s = b[e / 16];
    out[e] = (d * to_float(s & 15)) * to_float(two_bits(b + 16, e)) - m * to_float(s >> 4);
  }
}

void q3_k(const uint8_t* b, float* out) {
  const uint8_t *high = b, *qs = b + 32, *s = b + 96;
  const float d = half(b + 108);
  for (int e = 0; e < 256; ++e) {
    const int g = e / 16;
    const int scale = ((s[g % 8] >> 4 * (g / 8) & 15) | (s[8 + g % 4] >> 2 * (g / 4) & 3) << 4) - 32;
    const int q = two_bits(qs, e) - ((high[e % 32] >> e / 32 & 1) != 0 ? 0 : 4);
    out[e] = (d * to_float(scale)) * to_float(q);
  }
}

// Six-bit scales and minima of eight sub-blocks of 32 in twelve bytes (Q4_K, Q5_K).
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum six_bits(const uint8_t* s, int j) noexcept {
  if (j < 4) return {s[j] & 63, s[j + 4] & 63};
  return {(s[j + 4] & 15) | (s[j - 4] >> 6) << 4, (s[j + 4] >> 4) | (s[j] >> 6) << 4};
}
template <class Code>
void with_minima(const uint8_t* b, float* out, Code code) {
  const float d = half(b), m = half(b + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, minimum] = six_bits(b + 4, j);
    const float s = d * to_float(scale), low = m * to_float(minimum);
    for (int i = 0; i < 32; ++i) out[32 * j + i] = s * to_float(code(j, i)) - low;
  }
}
int nibble_of(const uint8_t* qs, int j, int i) noexcept { return qs[32 * (j / 2) + i] >> 4 * (j % 2) & 15; }
void q4_k(const uint8_t* b, float* out) {
  with_minima(b, out, [b](int j, int i) { return nibble_of(b + 16, j, i); });
}
void q5_k(const uint8_t* b, float* out) {
  with_minima(b, out, [b](int j, int i) { return nibble_of(b + 48, j, i) | (b[16 + i] >> j & 1) << 4; });
}

void q6_k(const uint8_t* b, float* out) {
  const uint8_t *low = b, *high = b + 128, *scales = b + 192;
  const float d = half(b + 208);
  for (int e = 0; e < 256; ++e) {
    const int half_index = e / 128, k = e % 128 / 32, l = e % 32;
    const int q =
        (low[64 * half_index + 32 * (k & 1) + l] >> 4 * (k >> 1) & 15) | (high[32 * half_index + l] >> 2 * k & 3) << 4;
    out[e] = (d * to_float(static_cast<int8_t>(scales[e / 16]))) * to_float(q - 32);
  }
}

constexpr Type kTypes[] = {
    {0, "F32", 1, 4, f32},        {1, "F16", 1, 2, f16},          {30, "BF16", 1, 2, bf16},
    {2, "Q4_0", 32, 18, q4_0},    {3, "Q4_1", 32, 20, q4_1},      {6, "Q5_0", 32, 22, q5_0},
    {7, "Q5_1", 32, 24, q5_1},    {8, "Q8_0", 32, 34, q8_0},      {10, "Q2_K", 256, 84, q2_k},
    {11, "Q3_K", 256, 110, q3_k}, {12, "Q4_K", 256, 144, q4_k},   {13, "Q5_K", 256, 176, q5_k},
    {14, "Q6_K", 256, 210, q6_k}, {20, "IQ4_NL", 32, 18, iq4_nl},
};

struct Other {
  uint32_t id;
  std::string_view name;
};
constexpr Other kOthers[] = {
    {4, "Q4_2 (removed)"},
    {5, "Q4_3 (removed)"},
    {9, "Q8_1"},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {31, "Q4_0_4_4 (removed)"},
    {32, "Q4_0_4_8 (removed)"},
    {33, "Q4_0_8_8 (removed)"},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
};

}  // namespace

const Type* find_type(uint32_t id) noexcept {
  const auto at = std::find_if(std::begin(kTypes), std::end(kTypes), [id](const Type& one) { return one.id == id; });
  return at == std::end(kTypes) ? nullptr : at;
}

const Type* find_type(std::string_view name) noexcept {
  const auto at =
      std::find_if(std::begin(kTypes), std::end(kTypes), [name](const Type& one) { return one.name == name; });
  return at == std::end(kTypes) ? nullptr : at;
}

std::string_view name_of_type(uint32_t id) noexcept {
  if (const Type* type = find_type(id)) return type->name;
  for (const Other& one : kOthers) {
    if (one.id == id) return one.name;
  }
  return "unknown";
}

}  // namespace cortiq::convert::gguf
