#pragma once
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "engine/weights.h"

// What a decoder is made of (ENGINE_FACTS §1–§8, §12): built once at load, by which tensors are there and how wide they
// are, never by a model's name. An empty reference means that the part does not exist.
namespace cortiq::engine {

struct Attention {
  WeightRef q, k, v, o;
  WeightRef gate;  ///< self_attn.g_proj: softplus gate from the layer's input
  VectorRef q_bias, k_bias, v_bias, o_bias;
  VectorRef q_norm, k_norm;    ///< before the rotation
  bool norm_per_head = true;   ///< false: one norm over all heads together (OLMo 2)
  bool gated_q = false;        ///< q_proj holds [q; gate] per head, the output is multiplied by sigmoid(gate)
  bool gate_per_head = false;  ///< g_proj has a row a head; otherwise a row a channel
  uint32_t heads = 0;
  uint64_t window = 0;  ///< keys seen, itself included; 0: all
  int32_t rope = -1;    ///< index into Model::rope_profiles(); −1: not rotated
};

struct DeltaNet {
  WeightRef qkv, z, b, a;  ///< split names; empty when the fused ones are there
  WeightRef qkvz, ba;      ///< Qwen3-Next's fused projections, rows interleaved per key head
  WeightRef out;
  VectorRef conv, a_log, dt_bias, norm;
  uint32_t k_heads = 0, v_heads = 0, dk = 0, dv = 0, kernel = 0;
  uint64_t key_dim() const noexcept { return uint64_t{k_heads} * dk; }
  uint64_t value_dim() const noexcept { return uint64_t{v_heads} * dv; }
  uint64_t channels() const noexcept { return 2 * key_dim() + value_dim(); }
};

struct DenseFfn {
  WeightRef gate, up, down;
  VectorRef gate_bias, up_bias, down_bias;
  uint64_t width = 0;
};

struct MoeFfn {
  WeightRef router;  ///< [experts, hidden]
  VectorRef bias;    ///< added for the selection only
  std::vector<DenseFfn> experts;
  std::optional<DenseFfn> shared;
  WeightRef shared_gate;  ///< [1, hidden]: the shared expert is multiplied by sigmoid of it
  uint32_t top_k = 0;
  bool sigmoid = false, normalise = false;
  float scaling = 1;
};

/// h += post_mixer(mixer(input_norm(h))); h += post_ffn(ffn(pre_ffn(h))); a missing norm is the identity. Pre-norm,
/// sandwich and post-norm layers differ only in which are there.
struct Block {
  VectorRef input_norm, post_mixer_norm, pre_ffn_norm, post_ffn_norm;
  std::variant<Attention, DeltaNet> mixer;
  std::variant<DenseFfn, MoeFfn> ffn;
};

/// The multi-token-prediction head (§2.1 of the specification): block(eh_proj·[enorm(embedding); hnorm(hidden)]).
struct MtpHead {
  VectorRef embedding_norm, hidden_norm, norm;
  WeightRef projection;
  Block block;
};

}  // namespace cortiq::engine
