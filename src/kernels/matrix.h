#pragma once
#include <cstdint>
#include <memory>

#include "codec/codec.h"
#include "codec/layout.h"

namespace cortiq::kernels {

/// How matrices multiply (decisions 1–2).
///   Fast   quantised matrices times int8 activations (one scale per group of 32), float matrices in f32
///   Exact  every weight decoded to f32, f32 throughout
enum class Mode { Fast, Exact };

/// A weight matrix [rows = out, cols = in] as kernels read it: a view of mapped bytes, cheap to copy. Small derived
/// data (q4tp's ladders, 8 bytes a row; vbit's row offsets) is made at the first use and shared between copies.
class Matrix {
 public:
  Matrix() = default;
  /// The payload has been validated by its codec; it stays mapped as long as the matrix is used.
  Matrix(codec::Dtype dtype, uint64_t rows, uint64_t cols, Bytes payload);

  codec::Dtype dtype() const noexcept { return dtype_; }
  uint64_t rows() const noexcept { return rows_; }
  uint64_t cols() const noexcept { return cols_; }
  Bytes payload() const noexcept { return payload_; }
  explicit operator bool() const noexcept { return rows_ != 0; }

  /// True if Fast mode multiplies it with int8 activations (every dtype but f32, f16, bf16; a q4_block whose groups
  /// straddle rows is decoded and counts as float).
  bool integer() const noexcept;

  /// Bytes read when every row is used once.
  uint64_t bytes() const noexcept { return payload_.size(); }

  /// One row decoded to f32.
  void decode_row(uint64_t row, float* out) const;

  struct Derived;
  const Derived* derived() const;

 private:
  codec::Dtype dtype_ = codec::Dtype::F32;
  uint64_t rows_ = 0, cols_ = 0;
  Bytes payload_;
  std::shared_ptr<Derived> derived_;
};

}  // namespace cortiq::kernels
