#include "engine/block_builder.h"

#include <algorithm>

#include "base/error.h"

namespace cortiq::engine {

Block BlockBuilder::build(const Place& place) {
  const std::string& p = place.prefix;
  const uint64_t hidden = arch_.hidden_size;
  Block block;
  // §2 of the engine facts: an output norm behind the FFN says that post_attention_layernorm is an output norm too.
  // Without it, post_attention_layernorm stands before the FFN.
  block.input_norm = weights_.optional_vector(p + "input_layernorm.weight", hidden);
  const VectorRef between = weights_.vector(p + "post_attention_layernorm.weight", hidden);
  block.post_ffn_norm = weights_.optional_vector(p + "post_feedforward_layernorm.weight", hidden);
  if (block.post_ffn_norm) {
    block.post_mixer_norm = between;
    block.pre_ffn_norm = weights_.optional_vector(p + "pre_feedforward_layernorm.weight", hidden);
  } else {
    block.pre_ffn_norm = between;
    if (!block.input_norm || weights_.has(p + "pre_feedforward_layernorm.weight")) {
      fail(ErrorKind::Parse,
           "{}: {}: the norms fit neither a pre-norm, a sandwich nor a post-norm layer; '{}' is missing", file(), p,
           p + (block.input_norm ? "post_feedforward_layernorm.weight" : "input_layernorm.weight"));
    }
  }
  switch (place.type) {
    case cmf::LayerType::FullAttention:
    case cmf::LayerType::SlidingAttention:
      block.mixer = attention(place);
      break;
    case cmf::LayerType::LinearAttention:
      block.mixer = delta_net(place);
      break;
    case cmf::LayerType::ShortConv:
    case cmf::LayerType::Kda:
      fail(ErrorKind::Unsupported, "{}: {}: layers of type {} are not executed", file(), p,
           place.type == cmf::LayerType::Kda ? "Kda" : "ShortConv");
  }
  if (weights_.has(p + "mlp.gate.weight")) {
    block.ffn = moe(p + "mlp.");
  } else {
    block.ffn = dense(p + "mlp.");
  }
  return block;
}

Attention BlockBuilder::attention(const Place& place) {
  const std::string p = place.prefix + "self_attn.";
  const uint64_t hidden = arch_.hidden_size, hd = arch_.head_dim, nq = place.heads, nkv = arch_.num_kv_heads;
  if (nkv == 0 || nq == 0 || nq % nkv != 0) {
    fail(ErrorKind::Parse, "{}: {}: {} query heads do not share {} key/value heads evenly", file(), p, nq, nkv);
  }
  if (weights_.has(p + "sinks")) {
    fail(ErrorKind::Unsupported, "{}: tensor '{}sinks': attention sinks are not executed", file(), p);
  }
  Attention a;
  a.heads = static_cast<uint32_t>(nq);
  a.window = place.window;
  a.rope = place.rope;
  a.q = weights_.matrix_of_width(p + "q_proj.weight", hidden);
  const uint64_t q_rows = rows_of(a.q);
  a.gated_q = q_rows == 2 * nq * hd;
  if (q_rows != nq * hd && !a.gated_q) {
    fail(ErrorKind::Parse,
         "{}: tensor '{}q_proj.weight' has {} rows, expected {} ({} heads of {}) or twice that, gated", file(), p,
         q_rows, nq * hd, nq, hd);
  }
  a.k = weights_.matrix(p + "k_proj.weight", nkv * hd, hidden);
  a.v = weights_.matrix(p + "v_proj.weight", nkv * hd, hidden);
  a.o = weights_.matrix(p + "o_proj.weight", hidden, nq * hd);
  a.q_bias = weights_.optional_vector(p + "q_proj.bias", q_rows);
  a.k_bias = weights_.optional_vector(p + "k_proj.bias", nkv * hd);
  a.v_bias = weights_.optional_vector(p + "v_proj.bias", nkv * hd);
  a.o_bias = weights_.optional_vector(p + "o_proj.bias", hidden);

  const cmf::Tensor* norm = weights_.set().find(p + "q_norm.weight");
  const cmf::Tensor* k_norm = weights_.set().find(p + "k_norm.weight");
  if ((norm == nullptr) != (k_norm == nullptr)) {
    fail(ErrorKind::Parse, "{}: {} has only one of q_norm and k_norm", file(), p);
  }
  if (norm != nullptr) {
    a.norm_per_head = norm->shape.elements() == hd;
    a.q_norm = weights_.vector(p + "q_norm.weight", a.norm_per_head ? hd : nq * hd);
    a.k_norm = weights_.vector(p + "k_norm.weight", a.norm_per_head ? hd : nkv * hd);
  }
  if (weights_.has(p + "g_proj.weight")) {
    a.gate = weights_.matrix_of_width(p + "g_proj.weight", hidden);
    const uint64_t rows = rows_of(a.gate);
    a.gate_per_head = rows == nq;
    if (rows != nq && rows != nq * hd) {
      fail(ErrorKind::Parse, "{}: tensor '{}g_proj.weight' has {} rows, expected {} (a head) or {} (a channel)", file(),
           p, rows, nq, nq * hd);
    }
  }
  return a;
}

DeltaNet BlockBuilder::delta_net(const Place& place) {
  const std::string p = place.prefix + "linear_attn.";
  const uint64_t hidden = arch_.hidden_size;
  if (arch_.linear_core && arch_.linear_core->kind != "gated_delta_net") {
    fail(ErrorKind::Unsupported, "{}: arch.linear_core.kind '{}' is not executed", file(),
         printable(arch_.linear_core->kind));
  }
  const auto demand = [&](std::optional<uint64_t> value, const char* key) {
    if (!value || *value == 0 || *value > UINT32_MAX) {
      fail(ErrorKind::Parse, "{}: arch.{} is missing, needed for the gated delta net {}", file(), key, p);
    }
    return static_cast<uint32_t>(*value);
  };
  std::optional<uint64_t> v_heads = arch_.linear_num_value_heads, dv = arch_.linear_value_head_dim;
  if (!v_heads && arch_.linear_core) v_heads = arch_.linear_core->num_heads;
  if (!dv && arch_.linear_core) dv = arch_.linear_core->value_head_dim;
  DeltaNet d;
  d.k_heads = demand(arch_.linear_num_key_heads, "linear_num_key_heads");
  d.dk = demand(arch_.linear_key_head_dim, "linear_key_head_dim");
  d.v_heads = demand(v_heads, "linear_num_value_heads");
  d.dv = demand(dv, "linear_value_head_dim");
  d.kernel = demand(arch_.linear_conv_kernel_dim, "linear_conv_kernel_dim");
  if (d.v_heads % d.k_heads != 0) {
    fail(ErrorKind::Parse, "{}: {}: {} value heads do not share {} key heads evenly", file(), p, d.v_heads, d.k_heads);
  }
  if (weights_.has(p + "in_proj_qkvz.weight")) {
    d.qkvz = weights_.matrix(p + "in_proj_qkvz.weight", d.channels() + d.value_dim(), hidden);
    d.ba = weights_.matrix(p + "in_proj_ba.weight", 2 * uint64_t{d.v_heads}, hidden);
  } else {
    d.qkv = weights_.matrix(p + "in_proj_qkv.weight", d.channels(), hidden);
    d.z = weights_.matrix(p + "in_proj_z.weight", d.value_dim(), hidden);
    d.b = weights_.matrix(p + "in_proj_b.weight", d.v_heads, hidden);
    d.a = weights_.matrix(p + "in_proj_a.weight", d.v_heads, hidden);
  }
  d.conv = weights_.vector(p + "conv1d.weight", d.channels() * d.kernel);
  d.a_log = weights_.vector(p + "A_log", d.v_heads);
  d.dt_bias = weights_.vector(p + "dt_bias", d.v_heads);
  d.norm = weights_.vector(p + "norm.weight", d.dv);
  d.out = weights_.matrix(p + "out_proj.weight", hidden, d.value_dim());
  return d;
}

DenseFfn BlockBuilder::dense(const std::string& prefix) {
  DenseFfn f;
  f.gate = weights_.matrix_of_width(prefix + "gate_proj.weight", arch_.hidden_size);
  f.width = rows_of(f.gate);
  f.up = weights_.matrix(prefix + "up_proj.weight", f.width, arch_.hidden_size);
  f.down = weights_.matrix(prefix + "down_proj.weight", arch_.hidden_size, f.width);
  f.gate_bias = weights_.optional_vector(prefix + "gate_proj.bias", f.width);
  f.up_bias = weights_.optional_vector(prefix + "up_proj.bias", f.width);
  f.down_bias = weights_.optional_vector(prefix + "down_proj.bias", arch_.hidden_size);
  return f;
}

MoeFfn BlockBuilder::moe(const std::string& prefix) {
  if (!arch_.moe) fail(ErrorKind::Parse, "{}: '{}gate.weight' is there, arch.moe is not", file(), prefix);
  const cmf::Moe& moe = *arch_.moe;
  MoeFfn m;
  m.router = weights_.matrix_of_width(prefix + "gate.weight", arch_.hidden_size);
  const uint64_t experts = rows_of(m.router);
  const auto expert = [&](uint64_t e) { return prefix + "experts." + std::to_string(e) + "."; };
  uint64_t present = 0;
  while (weights_.has(expert(present) + "gate_proj.weight")) ++present;
  if (present != experts || present > moe.num_experts) {
    fail(ErrorKind::Parse, "{}: '{}gate.weight' routes to {} experts, {} are there, arch.moe.num_experts is {}", file(),
         prefix, experts, present, moe.num_experts);
  }
  for (uint64_t e = present; e < std::max(moe.num_experts, present + 1); ++e) {
    if (weights_.has(expert(e) + "gate_proj.weight")) {
      fail(ErrorKind::Parse, "{}: expert {} of {} follows a gap", file(), e, prefix);
    }
  }
  for (uint64_t e = 0; e < experts; ++e) m.experts.push_back(dense(expert(e)));
  m.bias = weights_.optional_vector(prefix + "expert_bias", experts);
  if (weights_.has(prefix + "shared_expert.gate_proj.weight")) {
    m.shared = dense(prefix + "shared_expert.");
    if (weights_.has(prefix + "shared_expert_gate.weight")) {
      m.shared_gate = weights_.matrix(prefix + "shared_expert_gate.weight", 1, arch_.hidden_size);
    }
  }
  if (moe.top_k == 0) fail(ErrorKind::Parse, "{}: arch.moe.top_k is 0", file());
  m.top_k = static_cast<uint32_t>(std::min<uint64_t>(moe.top_k, experts));
  m.sigmoid = moe.router_sigmoid;
  m.normalise = moe.norm_topk_prob;
  m.scaling = static_cast<float>(moe.routed_scaling_factor.value_or(1));
  return m;
}

}  // namespace cortiq::engine
