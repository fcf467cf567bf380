#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace cortiq::kernels {

/// Working memory that grows to the largest request and then allocates no more; one per decoder.
class Scratch {
 public:
  /// At least n floats at a 64-byte boundary, contents undefined, valid until the next call.
  float* floats(uint64_t n) {
    if (n > size_) {
      const uint64_t size = std::max(n, size_ + size_ / 2);
      data_.reset();  // before the larger block, so that both never exist at once
      size_ = 0;
      data_.reset(static_cast<float*>(::operator new(size * sizeof(float), kAlignment)));
      size_ = size;
    }
    return data_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const noexcept { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<float, Free> data_;
  uint64_t size_ = 0;
};

}  // namespace cortiq::kernels
