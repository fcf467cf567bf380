#include "codec/layout.h"
#include "codec/loops.h"
#include "codec/nibbles.h"
#include "codec/rows.h"
#include "codec/table.h"

namespace cortiq::codec {
namespace {

/// q4_tiled: the numbers of q4_block with each group's scale before its nibbles (facts §5.5).
class Q4Tiled final : public Codec {
 public:
  Dtype dtype() const noexcept override { return Dtype::Q4Tiled; }
  std::string_view name() const noexcept override { return "q4_tiled"; }
  std::optional<std::string> refuses(const Shape& shape) const override { return refuse_unless_matrix(shape, true); }
  std::optional<uint64_t> nbytes(const Shape& shape) const override {
    return checked_multiply(shape.elements() / kGroup, kQ4TileBytes);
  }
  void validate(Bytes payload, const Shape& shape) const override { require_fit(*this, payload, shape); }

  void check_values(Bytes payload, const Shape& shape, size_t limit,
                    std::vector<ValueProblem>& problems) const override {
    const uint64_t per_row = shape.cols() / kGroup;
    check_scales(payload.data(), shape.rows() * per_row, kQ4TileBytes, limit, problems, scale_of_group(per_row));
  }

  std::vector<uint8_t> encode(std::span<const float> values, const Shape& shape, const EncodeOptions&,
                              ThreadPool& pool) const override {
    require_values(*this, values, shape);
    std::vector<uint8_t> out(*nbytes(shape));
    const Loops& run = loops();
    Refusals refusals;
    for_blocks(values, kGroup, pool, refusals, [&](uint64_t first, uint64_t last) {
      uint8_t* tiles = out.data() + first * kQ4TileBytes;
      if (!run.quantise4(values.data() + first * kGroup, last - first, tiles, kQ4TileBytes, tiles + 2, kQ4TileBytes)) {
        return;
      }
      for (uint64_t g = first; g < last; ++g) {
        if (load16(out.data() + g * kQ4TileBytes) == kInfiniteHalf) refusals.overflow(g * kGroup);
      }
    });
    refusals.raise(*this, values, shape);
    return out;
  }

  void decode(Bytes payload, const Shape& shape, uint64_t first, uint64_t count, float* out) const override {
    const uint64_t per_row = shape.cols() / kGroup;
    const uint8_t* tile = Q4TiledView(payload.data()).tiles + first * per_row * kQ4TileBytes;
    for (uint64_t t = 0; t < count * per_row; ++t, tile += kQ4TileBytes, out += kGroup) {
      decode_nibbles(tile + 2, load_half(tile), out);
    }
  }
};

}  // namespace

const Codec& q4_tiled_codec() noexcept {
  static const Q4Tiled codec;
  return codec;
}

}  // namespace cortiq::codec
