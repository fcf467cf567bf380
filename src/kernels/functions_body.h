#pragma once

// Elementary functions over Lanes (docs/numerics.md, "Elementary functions"). A lanes_….h is included before.
namespace cortiq::kernels {
namespace {

// x = n·ln 2 + r with |r| ≤ ln 2 / 2. Adding 1.5·2^23 rounds to an integer, which then stands in the low bits of the
// sum.
struct Reduced {
  Lanes r, n;
  Ints integer;  // n
};
inline Reduced reduce_by_ln2(Lanes x) noexcept {
  const Lanes shift = set(0x1.8p23f);
  const Lanes shifted = fma(x, set(0x1.715476p0f), shift);
  const Lanes n = shifted - shift;
  Lanes r = fnma(n, set(0x1.62e430p-1f), x);
  r = fnma(n, set(-0x1.05c610p-29f), r);
  return {r, n, bits(shifted) - bits(shift)};
}

/// e^r − 1 for |r| ≤ ln 2 / 2: r + r²·P(r), relative error 2^-29 before rounding.
inline Lanes exp_minus_one_near_zero(Lanes r) noexcept {
  Lanes p = set(0x1.a152acp-13f);
  p = fma(p, r, set(0x1.6d444ep-10f));
  p = fma(p, r, set(0x1.1110c6p-7f));
  p = fma(p, r, set(0x1.5554e8p-5f));
  p = fma(p, r, set(0x1.555556p-3f));
  p = fma(p, r, set(0.5f));
  return fma(r * r, p, r);
}

[[gnu::always_inline]] inline Lanes exp(Lanes x) noexcept {
  // Beyond these the result is 0 or infinity. NaN passes both: it is the second operand.
  const Reduced a = reduce_by_ln2(max(set(-104.0f), min(set(89.0f), x)));
  return times_power_of_two(exp_minus_one_near_zero(a.r) + set(1.0f), a.n, a.integer);
}

inline Lanes sigmoid(Lanes x) noexcept {
  const Lanes one = set(1.0f);
  const Lanes e = exp(copysign(x, set(-1.0f)));  // e^−|x| keeps the small side exact
  return select(less(x, set(0.0f)), e, one) / (one + e);
}

/// max(x, 0) + log1p(e^−|x|). With s = u/(2+u): log1p(u) = u − s·(u − R), R = 2s²·(1/3 + s²/5 + s⁴/7 + …).
inline Lanes softplus(Lanes x) noexcept {
  const Lanes u = exp(copysign(x, set(-1.0f)));
  const Lanes s = u / (set(2.0f) + u);
  const Lanes z = s * s;
  Lanes p = set(0x1.dc0ecep-3f);
  p = fma(p, z, set(0x1.bc75ccp-3f));
  p = fma(p, z, set(0x1.24c9ecp-2f));
  p = fma(p, z, set(0x1.9998d0p-2f));
  p = fma(p, z, set(0x1.555556p-1f));
  return max(set(0.0f), x) + fnma(s, fnma(z, p, u), u);
}

/// −m / (2 + m), m = e^(−2|x|) − 1, with the sign of x.
inline Lanes tanh(Lanes x) noexcept {
  const Lanes twice = abs(x) * set(-2.0f);
  const Reduced a = reduce_by_ln2(max(set(-40.0f), twice));
  const Lanes scale = power_of_two(a.integer);
  const Lanes m = fma(exp_minus_one_near_zero(a.r), scale, scale - set(1.0f));
  return copysign(m / (set(2.0f) + m), x);
}

inline Lanes silu(Lanes x) noexcept { return x * sigmoid(x); }

/// x/2·(1 + tanh u) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³).
inline Lanes gelu_tanh(Lanes x) noexcept {
  const Lanes inner = fma(x * x, set(0x1.2444f2p-4f), set(0x1.988454p0f));  // 2√(2/π)·0.044715, 2√(2/π)
  return x * sigmoid(x * inner);
}

inline Lanes capped(Lanes x, float cap) noexcept { return set(cap) * tanh(x / set(cap)); }

}  // namespace
}  // namespace cortiq::kernels
