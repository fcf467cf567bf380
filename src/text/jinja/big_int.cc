#include "text/jinja/big_int.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "text/jinja/failure.h"

namespace cortiq::text::jinja {

BigInt::BigInt(int64_t value) : negative_(value < 0) {
  uint64_t magnitude = negative_ ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  for (; magnitude != 0; magnitude >>= 32) limbs_.push_back(static_cast<uint32_t>(magnitude));
}

void BigInt::trim() {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
  if (limbs_.size() > kLimit) raise("integer too large: more than {} bits", kLimit * 32);
}

BigInt BigInt::parse(std::string_view digits, unsigned base) {
  BigInt result;
  for (const char c : digits) {
    const unsigned digit = c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>((c | 0x20) - 'a') + 10;
    uint64_t carry = digit;
    for (uint32_t& limb : result.limbs_) {
      carry += uint64_t{limb} * base;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) result.limbs_.push_back(static_cast<uint32_t>(carry));
    result.trim();
  }
  return result;
}

BigInt BigInt::truncate(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(std::trunc(value)), &exponent);
  BigInt result(static_cast<int64_t>(std::ldexp(fraction, 53)));
  const int shift = exponent - 53;
  if (shift > 0) {
    result = result * power(BigInt(2), static_cast<uint64_t>(shift));
  } else {
    BigInt rest;
    divide(BigInt(result), power(BigInt(2), static_cast<uint64_t>(-shift)), result, rest);
  }
  result.negative_ = value < 0 && !result.zero();
  return result;
}

std::optional<int64_t> BigInt::small() const noexcept {
  if (limbs_.size() > 2) return std::nullopt;
  uint64_t magnitude = 0;
  for (size_t i = limbs_.size(); i-- > 0;) magnitude = magnitude << 32 | limbs_[i];
  if (magnitude > uint64_t{INT64_MAX} + (negative_ ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(negative_ ? 0 - magnitude : magnitude);
}

size_t BigInt::bit_length() const noexcept {
  return limbs_.empty() ? 0 : limbs_.size() * 32 - static_cast<size_t>(std::countl_zero(limbs_.back()));
}

double BigInt::to_double() const {
  const size_t bits = bit_length();
  if (bits > 1024) raise("int too large to convert to float");
  // The top 64 bits, the lowest of them sticky: converting those rounds as the whole would.
  uint64_t top = 0;
  bool sticky = false;
  const size_t drop = bits > 64 ? bits - 64 : 0;
  for (size_t i = bits; i-- > 0;) {
    const bool bit = (limbs_[i / 32] >> (i % 32) & 1) != 0;
    if (i >= drop) {
      top = top << 1 | (bit ? 1u : 0u);
    } else {
      sticky = sticky || bit;
    }
  }
  if (sticky) top |= 1;
  const double magnitude = std::ldexp(static_cast<double>(top), static_cast<int>(drop));
  if (std::isinf(magnitude)) raise("int too large to convert to float");
  return negative_ ? -magnitude : magnitude;
}

uint32_t BigInt::divide_small(uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = limbs_.size(); i-- > 0;) {
    rest = rest << 32 | limbs_[i];
    limbs_[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  return static_cast<uint32_t>(rest);
}

std::string BigInt::digits(unsigned base) const {
  if (zero()) return "0";
  BigInt rest = *this;
  std::string text;
  while (!rest.limbs_.empty()) text += "0123456789abcdefghijklmnopqrstuvwxyz"[rest.divide_small(base)];
  std::reverse(text.begin(), text.end());
  return text;
}

size_t BigInt::hash() const noexcept {
  size_t result = negative_ ? 7 : 3;
  for (const uint32_t limb : limbs_) result = result * 0x9E3779B97F4A7C15u + limb;
  return result;
}

BigInt BigInt::operator-() const {
  BigInt result = *this;
  result.negative_ = !negative_ && !zero();
  return result;
}

int BigInt::compare_magnitude(const BigInt& a, const BigInt& b) noexcept {
  if (a.limbs_.size() != b.limbs_.size()) return a.limbs_.size() < b.limbs_.size() ? -1 : 1;
  for (size_t i = a.limbs_.size(); i-- > 0;) {
    if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] < b.limbs_[i] ? -1 : 1;
  }
  return 0;
}

int BigInt::compare(const BigInt& other) const noexcept {
  if (negative_ != other.negative_) return negative_ ? -1 : 1;
  return negative_ ? -compare_magnitude(*this, other) : compare_magnitude(*this, other);
}

BigInt BigInt::add_magnitude(const BigInt& a, const BigInt& b) {
  BigInt result;
  uint64_t carry = 0;
  for (size_t i = 0; i < std::max(a.limbs_.size(), b.limbs_.size()) || carry != 0; ++i) {
    if (i < a.limbs_.size()) carry += a.limbs_[i];
    if (i < b.limbs_.size()) carry += b.limbs_[i];
    result.limbs_.push_back(static_cast<uint32_t>(carry));
    carry >>= 32;
  }
  return result;
}

BigInt BigInt::subtract_magnitude(const BigInt& a, const BigInt& b) {
  BigInt result;
  int64_t borrow = 0;
  for (size_t i = 0; i < a.limbs_.size(); ++i) {
    const int64_t part = int64_t{a.limbs_[i]} - (i < b.limbs_.size() ? int64_t{b.limbs_[i]} : 0) + borrow;
    result.limbs_.push_back(static_cast<uint32_t>(part));
    borrow = part < 0 ? -1 : 0;
  }
  return result;
}

BigInt BigInt::operator+(const BigInt& other) const {
  BigInt result;
  if (negative_ == other.negative_) {
    result = add_magnitude(*this, other);
    result.negative_ = negative_;
  } else if (compare_magnitude(*this, other) >= 0) {
    result = subtract_magnitude(*this, other);
    result.negative_ = negative_;
  } else {
    result = subtract_magnitude(other, *this);
    result.negative_ = other.negative_;
  }
  result.trim();
  return result;
}

BigInt BigInt::operator-(const BigInt& other) const { return *this + -other; }

BigInt BigInt::operator*(const BigInt& other) const {
  BigInt result;
  if (limbs_.size() + other.limbs_.size() > kLimit + 1) raise("integer too large: more than {} bits", kLimit * 32);
  result.limbs_.resize(limbs_.size() + other.limbs_.size());
  for (size_t i = 0; i < limbs_.size(); ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < other.limbs_.size() || carry != 0; ++j) {
      carry += result.limbs_[i + j];
      if (j < other.limbs_.size()) carry += uint64_t{limbs_[i]} * other.limbs_[j];
      result.limbs_[i + j] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  result.negative_ = negative_ != other.negative_;
  result.trim();
  return result;
}

void BigInt::divide(const BigInt& value, const BigInt& divisor, BigInt& quotient, BigInt& remainder) {
  // Bit by bit: numbers here are short, and the limit bounds the work.
  BigInt rest, result, magnitude = divisor;
  magnitude.negative_ = false;
  result.limbs_.resize(value.limbs_.size());
  for (size_t i = value.bit_length(); i-- > 0;) {
    uint32_t carry = value.limbs_[i / 32] >> (i % 32) & 1;
    for (uint32_t& limb : rest.limbs_) {
      const uint32_t top = limb >> 31;
      limb = limb << 1 | carry;
      carry = top;
    }
    if (carry != 0) rest.limbs_.push_back(carry);
    if (compare_magnitude(rest, magnitude) >= 0) {
      rest = subtract_magnitude(rest, magnitude);
      rest.trim();
      result.limbs_[i / 32] |= uint32_t{1} << (i % 32);
    }
  }
  const bool opposite = value.negative_ != divisor.negative_;
  result.negative_ = opposite;
  result.trim();
  if (opposite && !rest.zero()) {
    result = result - BigInt(1);
    rest = subtract_magnitude(magnitude, rest);
  }
  rest.negative_ = divisor.negative_;
  rest.trim();
  quotient = std::move(result);
  remainder = std::move(rest);
}

BigInt BigInt::power(BigInt base, uint64_t exponent) {
  // Refused before the work: 9 ** 9 ** 9 would multiply for hours.
  if (base.bit_length() > 1 && exponent > kLimit * 32) raise("integer too large: more than {} bits", kLimit * 32);
  BigInt result(1);
  for (;; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * base;
    if (exponent <= 1) return result;
    base = base * base;
  }
}

}  // namespace cortiq::text::jinja
