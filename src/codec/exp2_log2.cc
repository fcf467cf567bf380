#include "codec/exp2_log2.h"

#include <bit>

#include "base/half.h"
#include "codec/layout.h"

namespace cortiq::codec {
namespace {

// The format's q4tp vectors were made with single-precision functions that round these arguments the other way than
// correctly (facts §5.6, golden/exp2f_log2f_glibc.json); everywhere else the correctly rounded result is the format's.
struct Exception {
  uint16_t half;
  uint32_t result;
};
constexpr Exception kExp2[] = {
    {0x1BF5, 0x3F80585E}, {0x21A6, 0x3F80FB89}, {0x22D3, 0x3F813023}, {0x2D80, 0x3F87DB36}, {0x3263, 0x3F92FDB9},
    {0x3352, 0x3F95FE6F}, {0x3749, 0x3FAF7FD9}, {0x3959, 0x3FCB708D}, {0x3C58, 0x4007DB36}, {0x402C, 0x4087DB36},
    {0x422C, 0x4107DB36}, {0x4416, 0x4187DB36}, {0x4516, 0x4207DB36}, {0x4616, 0x4287DB36}, {0x4716, 0x4307DB36},
    {0x480B, 0x4387DB36}, {0x488B, 0x4407DB36}, {0x490B, 0x4487DB36}, {0x498B, 0x4507DB36}, {0x4A0B, 0x4587DB36},
    {0x4A8B, 0x4607DB36}, {0x4B0B, 0x4687DB36}, {0x4B8B, 0x4707DB36}, {0x9DF8, 0x3F7EF7C1}, {0x9F35, 0x3F7EC111},
    {0xB54E, 0x3F4B708D}, {0xBB50, 0x3F07DB36}, {0xBFA8, 0x3E87DB36}, {0xC1D4, 0x3E07DB36}, {0xC3D4, 0x3D87DB36},
    {0xC4EA, 0x3D07DB36}, {0xC5EA, 0x3C87DB36}, {0xC6EA, 0x3C07DB36}, {0xC7EA, 0x3B87DB36}, {0xC875, 0x3B07DB36},
    {0xC8F5, 0x3A87DB36}, {0xC975, 0x3A07DB36}, {0xC9F5, 0x3987DB36}, {0xCA75, 0x3907DB36}, {0xCAF5, 0x3887DB36},
    {0xCB75, 0x3807DB36}, {0xCBF5, 0x3787DB36},
};
constexpr Exception kLog2[] = {
    {0x361C, 0xBFB1C9F1}, {0x3A5E, 0xBEA89FBF}, {0x3B5F, 0xBDF1E994}, {0x3BC9, 0xBD20DDC8}, {0x3BDD, 0xBCCBB91E},
    {0x3BDE, 0xBCC5DA7C}, {0x3BDF, 0xBCBFFC99}, {0x3BED, 0xBC5C502D}, {0x3BF6, 0xBBE76587}, {0x3BFB, 0xBB671D0A},
    {0x3C07, 0x3C210835}, {0x3C16, 0x3CFB39A6}, {0x3C19, 0x3D0E895C}, {0x3C21, 0x3D3B6E7B}, {0x3CA7, 0x3E5F304D},
    {0x3D16, 0x3EB16A40}, {0x3D9A, 0x3EF8BE9E}, {0x3E12, 0x3F1A0DA7}, {0x3E97, 0x3F3861EE}, {0x3F18, 0x3F5398AE},
    {0x421C, 0x3FCE360F},
};

constexpr double kLn2 = 0.693147180559945309417232121458;

// 2^x for |x| <= 200: x = n + f, |f| <= 1/2, and e^(f·ln 2) by its series, whose 18th term is below 2^-70.
double exp2_series(double x) noexcept {
  const int n = static_cast<int>(x + (x < 0 ? -0.5 : 0.5));
  const double t = (x - n) * kLn2;
  double sum = 1;
  for (int k = 17; k > 0; --k) sum = 1 + sum * t / k;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(1023 + n) << 52);
}

// log2 x = e + log2 m, m in [1/sqrt 2, sqrt 2), by the series of the inverse hyperbolic tangent of (m-1)/(m+1).
double log2_series(double x) noexcept {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | uint64_t{1023} << 52);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 15; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return exponent + s * sum * (2 / kLn2);
}

float exp2_uncached(uint16_t half) noexcept {
  const double x = static_cast<double>(f16_to_f32(half));
  if (x != x) return f16_to_f32(half);
  if (x > 200) return std::bit_cast<float>(0x7F800000);
  if (x < -200) return 0;
  return static_cast<float>(exp2_series(x));
}

struct Exp2Table {
  float values[65536];
  Exp2Table() noexcept {
    for (uint32_t half = 0; half < 65536; ++half) values[half] = exp2_uncached(static_cast<uint16_t>(half));
    for (const Exception& one : kExp2) values[one.half] = std::bit_cast<float>(one.result);
  }
};

struct Log2Table {
  float values[0x7C00];
  Log2Table() noexcept {
    for (uint32_t half = 1; half < 0x7C00; ++half) {
      values[half] = static_cast<float>(log2_series(static_cast<double>(f16_to_f32(static_cast<uint16_t>(half)))));
    }
    for (const Exception& one : kLog2) values[one.half] = std::bit_cast<float>(one.result);
    values[0] = 0;
  }
};

}  // namespace

float exp2_of_half(uint16_t half) noexcept {
  static const Exp2Table table;
  return table.values[half];
}

const float* log2_of_halves() noexcept {
  static const Log2Table table;
  return table.values;
}

float log2_of(float value) noexcept { return static_cast<float>(log2_series(static_cast<double>(value))); }

Q4tpLadder q4tp_ladder(const uint8_t* row_parameters) noexcept {
  return {exp2_of_half(load16(row_parameters)), exp2_of_half(load16(row_parameters + 2))};
}

}  // namespace cortiq::codec
