#pragma once
#include "codec/codec.h"

// One object per dtype, each defined in the file of its name; table.cc lists them.
namespace cortiq::codec {

const Codec& f32_codec() noexcept;
const Codec& f16_codec() noexcept;
const Codec& bf16_codec() noexcept;
const Codec& u8_codec() noexcept;
const Codec& q8_row_codec() noexcept;
const Codec& q8_2f_codec() noexcept;
const Codec& q4_block_codec() noexcept;
const Codec& q4_tiled_codec() noexcept;
const Codec& q4tp_codec() noexcept;
const Codec& vbit_codec() noexcept;
const Codec& vbit_ro_codec() noexcept;
const Codec& q1_codec() noexcept;
const Codec& q1s_codec() noexcept;
const Codec& q1t_codec() noexcept;

}  // namespace cortiq::codec
