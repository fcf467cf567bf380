#include "convert/layout.h"

#include "base/error.h"

namespace cortiq::convert {
namespace {

using Presence = Expected::Presence;
using codec::Shape;

uint32_t dim(uint64_t size) {
  if (size > UINT32_MAX)
    fail(ErrorKind::Bounds, "the config implies a tensor dimension of {}, which no file can hold", size);
  return static_cast<uint32_t>(size);
}

class Walk {
 public:
  Walk(const cmf::Arch& arch, const Layout& layout, FunctionRef<void(const Expected&)> visit)
      : arch_(arch), layout_(layout), visit_(visit), hidden_(dim(arch.hidden_size)) {}

  void run() {
    need("model.embed_tokens.weight", {dim(arch_.vocab_size), hidden_});
    need("model.norm.weight", {hidden_});
    if (!arch_.tie_word_embeddings) need("lm_head.weight", {dim(arch_.vocab_size), hidden_});
    for (uint64_t l = 0; l < arch_.num_layers; ++l) {
      prefix_ = fmt::format("model.layers.{}.", l);
      norms();
      if (arch_.layer_types[l] == cmf::LayerType::LinearAttention) {
        linear_attention();
      } else {
        attention(arch_.heads(l));
      }
      ffn(layout_.is_sparse(l));
    }
    if (arch_.mtp) mtp();
  }

 private:
  void visit(std::string_view suffix, Shape shape, Presence presence = Presence::Required, std::string_view group = {},
             Shape other = {}) {
    name_.assign(prefix_).append(suffix);
    visit_({name_, shape, other, presence, group});
  }
  void need(std::string_view suffix, Shape shape) { visit(suffix, shape); }
  void bias(std::string_view suffix, uint64_t size, Layout::Bias wanted) {
    visit(suffix, {dim(size)}, wanted == Layout::Bias::Required ? Presence::Required : Presence::Together, suffix);
  }

  void norms() {
    if (layout_.norms != Layout::Norms::Post) need("input_layernorm.weight", {hidden_});
    need("post_attention_layernorm.weight", {hidden_});
    if (layout_.norms == Layout::Norms::Sandwich) need("pre_feedforward_layernorm.weight", {hidden_});
    if (layout_.norms != Layout::Norms::Pre) need("post_feedforward_layernorm.weight", {hidden_});
  }

  void attention(uint64_t heads) {
    const uint64_t q = heads * arch_.head_dim, kv = arch_.num_kv_heads * arch_.head_dim;
    const uint64_t q_rows = layout_.gated_query ? 2 * q : q;
    need("self_attn.q_proj.weight", {dim(q_rows), hidden_});
    need("self_attn.k_proj.weight", {dim(kv), hidden_});
    need("self_attn.v_proj.weight", {dim(kv), hidden_});
    need("self_attn.o_proj.weight", {hidden_, dim(q)});
    bias("self_attn.q_proj.bias", q_rows, layout_.qkv_bias);
    bias("self_attn.k_proj.bias", kv, layout_.qkv_bias);
    bias("self_attn.v_proj.bias", kv, layout_.qkv_bias);
    bias("self_attn.o_proj.bias", arch_.hidden_size, layout_.o_bias);
    if (layout_.qk_norm != Layout::QkNorm::None) {
      const bool full = layout_.qk_norm == Layout::QkNorm::FullWidth;
      need("self_attn.q_norm.weight", {dim(full ? q : arch_.head_dim)});
      need("self_attn.k_norm.weight", {dim(full ? kv : arch_.head_dim)});
    }
    if (layout_.softplus_gate) {
      visit("self_attn.g_proj.weight", {dim(heads), hidden_}, Presence::Required, {}, {dim(q), hidden_});
    }
  }

  void linear_attention() {
    const uint64_t values = *arch_.linear_num_value_heads, value_dim = values * *arch_.linear_value_head_dim;
    const uint64_t channels = 2 * *arch_.linear_num_key_heads * *arch_.linear_key_head_dim + value_dim;
    need("linear_attn.in_proj_qkv.weight", {dim(channels), hidden_});
    need("linear_attn.in_proj_z.weight", {dim(value_dim), hidden_});
    need("linear_attn.in_proj_b.weight", {dim(values), hidden_});
    need("linear_attn.in_proj_a.weight", {dim(values), hidden_});
    need("linear_attn.conv1d.weight", {dim(channels), 1, dim(*arch_.linear_conv_kernel_dim)});
    need("linear_attn.A_log", {dim(values)});
    need("linear_attn.dt_bias", {dim(values)});
    need("linear_attn.norm.weight", {dim(*arch_.linear_value_head_dim)});
    need("linear_attn.out_proj.weight", {hidden_, dim(value_dim)});
  }

  void ffn(bool sparse) {
    if (!sparse) return matrices("mlp.", layout_.dense_width, true);
    const cmf::Moe& moe = *arch_.moe;
    need("mlp.gate.weight", {dim(moe.num_experts), hidden_});
    if (layout_.expert_bias) need("mlp.expert_bias", {dim(moe.num_experts)});
    for (uint64_t e = 0; e < moe.num_experts; ++e) {
      matrices(fmt::format("mlp.experts.{}.", e), moe.moe_intermediate_size, false);
    }
    if (moe.shared_expert_intermediate_size) {
      matrices("mlp.shared_expert.", *moe.shared_expert_intermediate_size, false);
      if (layout_.shared_gate) need("mlp.shared_expert_gate.weight", {1, hidden_});
    }
  }

  void matrices(const std::string& where, uint64_t width, bool biases) {
    need(where + "gate_proj.weight", {dim(width), hidden_});
    need(where + "up_proj.weight", {dim(width), hidden_});
    need(where + "down_proj.weight", {hidden_, dim(width)});
    if (!biases) return;
    bias(where + "gate_proj.bias", width, layout_.mlp_bias);
    bias(where + "up_proj.bias", width, layout_.mlp_bias);
    bias(where + "down_proj.bias", arch_.hidden_size, layout_.mlp_bias);
  }

  // ENGINE_FACTS §12: one full-attention block of the model's own kind.
  void mtp() {
    prefix_ = "model.mtp.";
    need("enorm.weight", {hidden_});
    need("hnorm.weight", {hidden_});
    need("eh_proj.weight", {hidden_, dim(2 * arch_.hidden_size)});
    need("norm.weight", {hidden_});
    prefix_ = "model.mtp.layers.0.";
    norms();
    attention(arch_.num_attention_heads);
    ffn(layout_.sparse_mtp);
  }

  const cmf::Arch& arch_;
  const Layout& layout_;
  FunctionRef<void(const Expected&)> visit_;
  uint32_t hidden_;
  std::string prefix_, name_;
};

}  // namespace

void for_each_expected(const cmf::Arch& arch, const Layout& layout, FunctionRef<void(const Expected&)> visit) {
  Walk(arch, layout, visit).run();
}

}  // namespace cortiq::convert
