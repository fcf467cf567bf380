#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "cmf/arch.h"
#include "codec/shape.h"

namespace cortiq::convert {

/// How the blocks of a model are built, as far as the arch does not say it: what decides which tensors must be there.
struct Layout {
  enum class Norms { Pre, Sandwich, Post };  // ENGINE_FACTS §2
  enum class QkNorm { None, PerHead, FullWidth };
  enum class Bias { Optional, Required };  // optional: by presence, in all layers alike

  Norms norms = Norms::Pre;
  QkNorm qk_norm = QkNorm::None;
  Bias qkv_bias = Bias::Optional, o_bias = Bias::Optional, mlp_bias = Bias::Optional;
  std::string bias_key;              ///< the config key that claims required biases
  bool gated_query = false;          ///< q_proj has 2·heads·head_dim rows (§3 point 2)
  bool softplus_gate = false;        ///< self_attn.g_proj, one row a head or a channel
  std::vector<uint8_t> sparse;       ///< per layer: MoE; empty: all dense
  bool sparse_mtp = false;           ///< the MTP block is MoE
  bool expert_bias = false;          ///< mlp.expert_bias (selection bias)
  bool shared_gate = false;          ///< mlp.shared_expert_gate
  uint64_t dense_width = 0;          ///< rows of a dense layer's gate_proj
  bool fused_experts_plain = false;  ///< 3-D experts are [E, out, in] even where the shape fits both ways

  bool is_sparse(uint64_t layer) const { return !sparse.empty() && sparse[layer]; }
};

/// A tensor that a model of this arch and layout has.
struct Expected {
  std::string_view name;
  codec::Shape shape;
  codec::Shape other;  ///< a second allowed shape; rank 0: none
  enum class Presence { Required, Together, Free } presence = Presence::Required;
  std::string_view group;  ///< Together: all tensors of a group are there or none is ("q_proj.bias")
};

/// Calls `visit` for every tensor, layer by layer. Sizes come from the arch; nothing is allocated by them, so that a
/// config with absurd numbers fails at the first tensor that is not there.
void for_each_expected(const cmf::Arch& arch, const Layout& layout, FunctionRef<void(const Expected&)> visit);

}  // namespace cortiq::convert
