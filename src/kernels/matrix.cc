#include "kernels/matrix.h"

#include "kernels/derived.h"
#include "kernels/planes.h"

namespace cortiq::kernels {

using codec::Dtype;

Matrix::Matrix(Dtype dtype, uint64_t rows, uint64_t cols, Bytes payload)
    : dtype_(dtype), rows_(rows), cols_(cols), payload_(payload) {
  if (dtype == Dtype::Q4tp || dtype == Dtype::Vbit) derived_ = std::make_shared<Derived>();
}

bool Matrix::integer() const noexcept {
  switch (dtype_) {
    case Dtype::F32:
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::U8:
      return false;
    case Dtype::Q4Block:
      return cols_ % codec::kGroup == 0;
    default:
      return true;
  }
}

const Matrix::Derived* Matrix::derived() const {
  if (!derived_) return nullptr;
  std::call_once(derived_->once, [this] {
    if (dtype_ == Dtype::Q4tp) {
      const codec::Q4tpView view(payload_.data(), rows_, cols_);
      derived_->ladder.resize(2 * rows_);
      for (uint64_t r = 0; r < rows_; ++r) {
        const codec::Q4tpLadder ladder = codec::q4tp_ladder(view.ladder + 4 * r);
        derived_->ladder[2 * r] = ladder.first;
        derived_->ladder[2 * r + 1] = ladder.ratio;
      }
    } else {
      derived_->offsets.resize(rows_ + 1);
      for (uint64_t r = 0; r < rows_; ++r) {
        derived_->offsets[r + 1] = derived_->offsets[r] + cols_ / 8 * payload_[r];
      }
    }
  });
  return derived_.get();
}

void Matrix::decode_row(uint64_t row, float* out) const {
  if (dtype_ == Dtype::Vbit) {
    // The codec would add up the widths of all rows before this one.
    const codec::VbitView view(payload_.data(), rows_, cols_, false);
    const uint32_t bits = view.bits[row], mask = (1u << bits) - 1;
    const float middle = static_cast<float>((1 << (bits - 1)) - 1);
    const uint8_t* at = view.packed + derived()->offsets[row];
    uint64_t window = 0;
    uint32_t held = 0;
    for (uint64_t c = 0; c < cols_; ++c) {
      while (held < bits) {
        window = window << 8 | *at++;
        held += 8;
      }
      held -= bits;
      const float scale = codec::load_half(view.scale + 2 * ((row * cols_ + c) / codec::kGroup));
      out[c] = (static_cast<float>(window >> held & mask) - middle) * scale;
    }
    return;
  }
  const codec::Shape shape{static_cast<uint32_t>(rows_), static_cast<uint32_t>(cols_)};
  codec::of(dtype_).decode(payload_, shape, row, 1, out);
}

}  // namespace cortiq::kernels
