#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::text::jinja {

/// Whole numbers of Python beyond 64 bits: sign and magnitude, up to kLimit limbs of 32 bits; larger results fail.
class BigInt {
 public:
  static constexpr size_t kLimit = 512;  // 16,384 bits; Python itself prints no more than 4,300 digits

  BigInt() = default;
  explicit BigInt(int64_t value);
  /// Digits of a base from 2 to 36, without sign or prefix; they must be valid.
  static BigInt parse(std::string_view digits, unsigned base);
  /// The integer part of a finite number.
  static BigInt truncate(double value);

  std::optional<int64_t> small() const noexcept;  // if it fits
  double to_double() const;                       // nearest, ties to even; fails beyond the range of double
  std::string digits(unsigned base) const;        // magnitude only
  bool negative() const noexcept { return negative_; }
  bool zero() const noexcept { return limbs_.empty(); }
  size_t bit_length() const noexcept;
  size_t bytes() const noexcept { return limbs_.capacity() * sizeof(uint32_t); }
  size_t hash() const noexcept;

  BigInt operator-() const;
  BigInt operator+(const BigInt& other) const;
  BigInt operator-(const BigInt& other) const;
  BigInt operator*(const BigInt& other) const;
  /// Python's // and %: the quotient is rounded down, the remainder has the divisor's sign. The divisor is not zero.
  static void divide(const BigInt& value, const BigInt& divisor, BigInt& quotient, BigInt& remainder);
  static BigInt power(BigInt base, uint64_t exponent);
  int compare(const BigInt& other) const noexcept;

 private:
  static int compare_magnitude(const BigInt& a, const BigInt& b) noexcept;
  static BigInt add_magnitude(const BigInt& a, const BigInt& b);
  static BigInt subtract_magnitude(const BigInt& a, const BigInt& b);  // |a| ≥ |b|
  uint32_t divide_small(uint32_t divisor);                             // in place, returns the remainder
  void trim();

  std::vector<uint32_t> limbs_;  // least significant first, no leading zeros
  bool negative_ = false;
};

}  // namespace cortiq::text::jinja
