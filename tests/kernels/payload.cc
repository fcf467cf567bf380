#include "kernels/payload.h"

#include <algorithm>
#include <limits>

namespace cortiq::test {
namespace {

using codec::Dtype;

class Builder {
 public:
  Builder(uint64_t rows, uint64_t cols, Data data, Random& random)
      : rows_(rows), cols_(cols), groups_(cols / 32), data_(data), random_(random) {}

  std::vector<uint8_t> build(Dtype dtype) {
    switch (dtype) {
      case Dtype::F32:
        for (uint64_t i = 0; i < rows_ * cols_; ++i) put_float();
        break;
      case Dtype::F16:
        halves(rows_ * cols_);
        break;
      case Dtype::BF16:
        for (uint64_t i = 0; i < rows_ * cols_; ++i) put(f32_to_bf16(random_.uniform()));
        break;
      case Dtype::Q8Row:
      case Dtype::Q8TwoField:
        codes(rows_ * cols_, {0x80, 0x7F, 0x00});
        halves(rows_);
        if (dtype == Dtype::Q8TwoField) halves(cols_);
        break;
      case Dtype::Q4Block:
        codes((rows_ * cols_ + 31) / 32 * 16, {0x00, 0xFF, 0x0F});
        halves((rows_ * cols_ + 31) / 32);
        break;
      case Dtype::Q4Tiled:
        tiles(16, {0x00, 0xFF, 0xF0});
        break;
      case Dtype::Q4tp:
        codes(rows_ * groups_ * 16, {0x00, 0xFF, 0x0F});
        for (uint64_t r = 0; r < rows_; ++r) {
          put(f32_to_f16(random_.uniform() * 4 - 8));
          put(f32_to_f16((random_.uniform() + 1) * 0.15f));
        }
        codes(rows_ * ((5 * groups_ + 7) / 8), {0x00, 0xFF});
        break;
      case Dtype::Vbit:
      case Dtype::VbitRo:
        variable(dtype == Dtype::VbitRo);
        break;
      case Dtype::Q1:
      case Dtype::Q1s:
        tiles(4, {0x00, 0xFF});
        if (dtype == Dtype::Q1s) overlay_flat();
        break;
      case Dtype::Q1t:
        tiles(7, {0, 242, 121});
        overlay_rows();
        break;
      case Dtype::U8:
        break;
    }
    return std::move(out_);
  }

 private:
  template <class T>
  void put(T value) {
    const size_t at = out_.size();
    out_.resize(at + sizeof value);
    std::memcpy(out_.data() + at, &value, sizeof value);
  }

  void put_float() {
    static constexpr float kEnds[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 1e30f, -1e-30f};
    put(data_ == Data::Extreme && random_.below(2) ? kEnds[random_.below(6)] : random_.uniform());
  }

  uint16_t half() {
    static constexpr uint16_t kEnds[] = {0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x0400};
    if (data_ == Data::Extreme && random_.below(2)) return kEnds[random_.below(6)];
    return f32_to_f16(random_.uniform() * 0.02f);
  }

  void halves(uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) put(half());
  }

  void codes(uint64_t n, std::initializer_list<uint8_t> ends) {
    for (uint64_t i = 0; i < n; ++i) {
      const bool end = data_ == Data::Extreme && random_.below(4) != 0;
      put(end ? ends.begin()[random_.below(ends.size())] : static_cast<uint8_t>(random_.next()));
    }
  }

  void tiles(uint64_t code_bytes, std::initializer_list<uint8_t> ends) {
    for (uint64_t i = 0; i < rows_ * groups_; ++i) {
      put(half());
      const size_t at = out_.size();
      codes(code_bytes, ends);
      if (code_bytes == 7) {  // base 3: 243 and above are never written
        for (size_t k = at; k < out_.size(); ++k) out_[k] = static_cast<uint8_t>(out_[k] % 243);
        out_.back() = static_cast<uint8_t>(out_.back() % 9);
      }
    }
  }

  void variable(bool offsets) {
    static constexpr uint8_t kBits[] = {3, 4, 5, 6, 8};
    std::vector<uint32_t> offset{0};
    for (uint64_t r = 0; r < rows_; ++r) {
      put(kBits[random_.below(5)]);
      offset.push_back(offset.back() + static_cast<uint32_t>(cols_ / 8 * out_.back()));
    }
    halves(rows_ * groups_);
    if (offsets) {
      for (const uint32_t at : offset) put(at);
    }
    codes(offset.back(), {0x00, 0xFF});
  }

  std::vector<uint32_t> some(uint64_t below) {
    std::vector<uint32_t> found;
    for (uint64_t i = 0; i < below; ++i) {
      if (data_ != Data::Plain && random_.below(data_ == Data::Extreme ? 20 : 100) == 0)
        found.push_back(static_cast<uint32_t>(i));
    }
    return found;
  }

  void overlay_flat() {
    const std::vector<uint32_t> places = some(rows_ * cols_);
    put(static_cast<uint32_t>(places.size()));
    for (const uint32_t place : places) {
      put(place);
      put(half());
    }
  }

  void overlay_rows() {
    std::vector<std::vector<uint32_t>> places;
    uint32_t total = 0;
    put(total);
    for (uint64_t r = 0; r < rows_; ++r) {
      places.push_back(some(cols_));
      total += static_cast<uint32_t>(places.back().size());
      put(total);
    }
    for (uint64_t r = 0; r < rows_; ++r) {
      for (const uint32_t column : places[r]) {
        uint8_t* tile = out_.data() + (r * groups_ + column / 32) * codec::kQ1tTileBytes + 2;
        static constexpr int kPower[] = {1, 3, 9, 27, 81};
        uint8_t& byte = tile[column % 32 / 5];  // an outlier's position holds code 0
        const int power = kPower[column % 32 % 5];
        byte = static_cast<uint8_t>(byte - byte / power % 3 * power);
        put(static_cast<uint16_t>(column));
        put(half());
      }
    }
  }

  uint64_t rows_, cols_, groups_;
  Data data_;
  Random& random_;
  std::vector<uint8_t> out_;
};

}  // namespace

std::vector<uint8_t> random_payload(Dtype dtype, uint64_t rows, uint64_t cols, Data data, Random& random) {
  return Builder(rows, cols, data, random).build(dtype);
}

std::vector<float> random_activations(uint64_t count, uint64_t width, Data data, Random& random) {
  std::vector<float> x(count * width);
  for (float& value : x) value = random.uniform() * 3;
  if (data != Data::Extreme) return x;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (uint64_t t = 0; t < count; ++t) {
    for (uint64_t first = 0; first < width; first += 32) {
      const uint64_t kind = random.below(t % 4 == 3 ? 8 : 5);  // every fourth token meets infinities and NaN
      for (uint64_t c = first; c < std::min(width, first + 32); ++c) {
        float& value = x[t * width + c];
        if (kind == 1) value = 0;
        if (kind == 2) value *= 1e-42f;
        if (kind == 3) value = random.below(2) ? 1.0f : -1.0f;
        if (kind == 4) value *= 1e30f;
        if (kind == 5 && random.below(8) == 0) value = random.below(2) ? kInf : -kInf;
        if (kind == 6 && random.below(8) == 0) value = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  return x;
}

}  // namespace cortiq::test
