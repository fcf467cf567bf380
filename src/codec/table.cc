#include "codec/table.h"

#include <array>

namespace cortiq::codec {
namespace {

const std::array<const Codec*, 14>& table() noexcept {
  static const std::array<const Codec*, 14> rows = {
      &f32_codec(), &f16_codec(),  &bf16_codec(),  &q8_row_codec(),  &q4_block_codec(),
      &u8_codec(),  &vbit_codec(), &q8_2f_codec(), &vbit_ro_codec(), &q4_tiled_codec(),
      &q1_codec(),  &q1s_codec(),  &q1t_codec(),   &q4tp_codec(),
  };
  return rows;
}

}  // namespace

const Codec* find(uint8_t id) noexcept {
  for (const Codec* codec : table()) {
    if (static_cast<uint8_t>(codec->dtype()) == id) return codec;
  }
  return nullptr;
}

const Codec& of(Dtype dtype) noexcept { return *find(static_cast<uint8_t>(dtype)); }

const Codec* find(std::string_view name) noexcept {
  for (const Codec* codec : table()) {
    if (codec->name() == name) return codec;
  }
  return nullptr;
}

std::span<const Codec* const> all() noexcept { return table(); }

}  // namespace cortiq::codec
