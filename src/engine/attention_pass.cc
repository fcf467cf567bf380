#include <cstring>

#include "engine/pass.h"

namespace cortiq::engine {

// Rows of one sequence whose positions share a sixteen of a page go in together.
void Pass::store_keys(RowInfos rows, const Where& where, const float* k, uint64_t width) {
  const auto joins = [&](size_t i) {
    return i > 0 && i < rows.size() && rows[i].sequence == rows[i - 1].sequence &&
           rows[i].position == rows[i - 1].position + 1 && rows[i].position % kernels::kKeyLanes != 0;
  };
  for_rows(rows.size(), [&](size_t i) {
    if (joins(i)) return;
    uint32_t count = 1;
    while (joins(i + count)) ++count;
    kv(rows[i], where).store_keys(rows[i].position, count, k + i * width, width);
  });
}

// ENGINE_FACTS §3, step by step. x [rows][hidden], already normed.
void Pass::attention(const Attention& part, const Where& where, RowInfos rows, const float* x, float* y) {
  const cmf::Arch& arch = model_.arch();
  const uint64_t n = rows.size(), hd = arch.head_dim, heads = part.heads, width = heads * hd;
  const auto kv_heads = static_cast<uint32_t>(arch.num_kv_heads), head_dim = static_cast<uint32_t>(hd);
  const uint64_t kv_width = kv_heads * hd, q_width = part.gated_q ? 2 * width : width;
  float* q_raw = room(q_raw_, n * q_width);
  float* k = room(k_, n * kv_width);
  float* v = room(v_, n * kv_width);
  const uint64_t gate_width = !part.gate ? 0 : part.gate_per_head ? heads : width;
  float* head_gate = room(head_gate_, n * gate_width);
  const Projection projections[] = {{part.q, part.q_bias, q_raw, q_width},
                                    {part.k, part.k_bias, k, kv_width},
                                    {part.v, part.v_bias, v, kv_width},
                                    {part.gate, {}, head_gate, gate_width}};
  project(rows, where, x, hidden_, std::span(projections, part.gate ? 4 : 3));

  // A gated q_proj holds, head by head, the query and then the gate.
  float* q = part.gated_q ? room(q_, n * width) : q_raw;
  for (const RowInfo& row : rows) kv(row, where).grow(row.position + 1);
  for_rows(n, [&](size_t i) {
    const Binding& bound = binding(rows[i]);
    float* qi = q + i * width;
    float* ki = k + i * kv_width;
    if (part.gated_q) {
      for (uint64_t h = 0; h < heads; ++h) {
        std::memcpy(qi + h * hd, q_raw + i * q_width + 2 * h * hd, hd * sizeof(float));
      }
    }
    const auto normalise = [&](VectorRef weight, float* values, uint64_t count) {
      if (!weight) return;
      const float* w = bound.vector(weight);
      if (!part.norm_per_head) {
        kernels::rms_norm(values, w, count * hd, eps_, one_plus_, values);
      } else {
        for (uint64_t h = 0; h < count; ++h) {
          kernels::rms_norm(values + h * hd, w, hd, eps_, one_plus_, values + h * hd);
        }
      }
    };
    normalise(part.q_norm, qi, heads);
    normalise(part.k_norm, ki, kv_heads);
    if (part.rope >= 0) {
      const kernels::RopeTable& table = ropes_[static_cast<size_t>(part.rope)];
      kernels::apply_rope(qi, part.heads, head_dim, rows[i].position, table);
      kernels::apply_rope(ki, kv_heads, head_dim, rows[i].position, table);
    }
    kv(rows[i], where).store_values(rows[i].position, v + i * kv_width);
  });
  store_keys(rows, where, k, kv_width);

  float* out = room(heads_out_, n * width);
  attention_rows_.clear();
  for (size_t i = 0; i < n; ++i) {
    kernels::AttentionRow row;
    row.q = q + i * width;
    row.out = out + i * width;
    row.kv = kv(rows[i], where).view();
    row.position = rows[i].position;
    row.window = part.window;
    row.heads = part.heads;
    row.head_alive = where.masked ? binding(rows[i]).heads(where.layer) : nullptr;
    attention_rows_.push_back(row);
  }
  kernels::attention(attention_rows_, model_.attention_scale(),
                     static_cast<float>(arch.attn_logit_softcapping.value_or(0)), workspace_, pool_);

  if (part.gated_q || part.gate) {
    for_rows(n, [&](size_t i) {
      float* oi = out + i * width;
      const float* raw = q_raw + i * q_width;
      const float* gate = head_gate + i * gate_width;
      for (uint64_t h = 0; h < heads; ++h) {
        if (part.gated_q) kernels::sigmoid_gate(oi + h * hd, raw + (2 * h + 1) * hd, hd);
        if (part.gate && part.gate_per_head) kernels::scale(oi + h * hd, kernels::softplus_f32(gate[h]), hd);
      }
      if (part.gate && !part.gate_per_head) kernels::softplus_gate(oi, gate, width);
    });
  }
  const Projection output{part.o, part.o_bias, y, hidden_};
  project(rows, where, out, width, {&output, 1});
}

}  // namespace cortiq::engine
