#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/pass.h"

namespace cortiq::engine {

using Part = Projection::Part;

namespace {

// FFN rows of a mask are for dense layers only (§9 of the engine facts).
Where unmasked(Where where) {
  where.masked = false;
  return where;
}

}  // namespace

void Pass::activate(float* gate, const float* up, uint64_t n) const noexcept {
  if (model_.arch().hidden_act == cmf::Activation::Silu) {
    kernels::silu_multiply(gate, up, n);
  } else {
    kernels::gelu_tanh_multiply(gate, up, n);
  }
}

// ENGINE_FACTS §6: y = down(act(gate x) ⊙ up x). Under a mask only live neurons are computed, packed (decisions 7, 28).
void Pass::dense(const DenseFfn& part, const Where& where, RowInfos rows, const float* x, float* y) {
  const uint64_t n = rows.size(), width = part.width;
  float* gate = room(gate_, n * width);
  float* up = room(up_, n * width);
  const Projection in[] = {{part.gate, part.gate_bias, gate, width, Part::LiveRows},
                           {part.up, part.up_bias, up, width, Part::LiveRows}};
  project(rows, where, x, hidden_, in);
  for_rows(n, [&](size_t i) {
    const std::vector<uint32_t>* alive = live(rows[i].binding, where);
    activate(gate + i * width, up + i * width, alive == nullptr ? width : alive->size());
  });
  const Projection out{part.down, part.down_bias, y, hidden_, Part::LiveColumns};
  project(rows, where, gate, width, {&out, 1});
}

// Fills chosen_ and weights_ [n][k] and chosen_count_ [n].
void Pass::route(const MoeFfn& part, const Where& where, RowInfos rows, const float* x) {
  const uint64_t n = rows.size(), experts = part.experts.size(), k = part.top_k;
  float* logits = room(router_, n * experts);
  const Projection router{part.router, {}, logits, experts};
  project(rows, where, x, hidden_, {&router, 1});
  chosen_.resize(std::max<size_t>(chosen_.size(), n * k));
  chosen_count_.resize(std::max<size_t>(chosen_count_.size(), n));
  float* weights = room(weights_, n * k);
  const ExpertRule rule{part.top_k, part.sigmoid, part.normalise, part.scaling};
  float* scratch = room(choice_scratch_, 3 * n * experts);
  for_rows(n, [&](size_t i) {
    const Binding& bound = binding(rows[i]);
    chosen_count_[i] = choose_experts({logits + i * experts, experts}, part.bias ? bound.vector(part.bias) : nullptr,
                                      where.masked ? bound.admitted(where.layer) : nullptr, rule,
                                      scratch + 3 * i * experts, chosen_.data() + i * k, weights + i * k);
  });
  if (where.mtp) return;
  for (size_t i = 0; i < n; ++i) {
    const std::span<const uint32_t> ids(chosen_.data() + i * k, chosen_count_[i]);
    if (observer != nullptr) observer->routed(where.visit, rows[i].index, ids, {weights + i * k, ids.size()});
    if (expert_counts == nullptr) continue;
    for (const uint32_t id : ids) ++(*expert_counts)[where.layer][id];
  }
}

// A single row reads all its experts' gate and up matrices in one parallel loop.
void Pass::one_row_of_experts(const MoeFfn& part, const Where& where, const RowInfo& row, const float* x) {
  const uint32_t count = chosen_count_[0];
  const uint64_t width = part.experts.front().width;
  const bool uniform = std::all_of(chosen_.begin(), chosen_.begin() + count, [&](uint32_t e) {
    const DenseFfn& expert = part.experts[e];
    return expert.width == width && !expert.gate_bias && !expert.up_bias && !expert.down_bias;
  });
  if (!uniform) {
    grouped_experts(part, where, {&row, 1}, x);
    return;
  }
  float* gate = room(gate_, count * width);
  float* up = room(up_, count * width);
  together_.clear();
  for (uint32_t slot = 0; slot < count; ++slot) {
    const DenseFfn& expert = part.experts[chosen_[slot]];
    together_.push_back({expert.gate, {}, gate + slot * width, width});
    together_.push_back({expert.up, {}, up + slot * width, width});
  }
  multiply(row.binding, where, x, 1, hidden_, hidden_, together_);
  activate(gate, up, count * width);
  for (uint32_t slot = 0; slot < count; ++slot) {
    const Projection out{part.experts[chosen_[slot]].down, {}, results_.data() + slot * hidden_, hidden_};
    multiply(row.binding, where, gate + slot * width, 1, width, width, {&out, 1});
  }
}

// Rows sorted by expert: each expert's matrices are read once, whoever chose it.
void Pass::grouped_experts(const MoeFfn& part, const Where& where, RowInfos rows, const float* x) {
  const uint64_t n = rows.size(), k = part.top_k;
  first_pair_.assign(part.experts.size() + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t slot = 0; slot < chosen_count_[i]; ++slot) ++first_pair_[chosen_[i * k + slot] + 1];
  }
  std::partial_sum(first_pair_.begin(), first_pair_.end(), first_pair_.begin());
  next_pair_ = first_pair_;
  pairs_.resize(std::max<size_t>(pairs_.size(), n * k));
  for (size_t i = 0; i < n; ++i) {
    for (uint32_t slot = 0; slot < chosen_count_[i]; ++slot) {
      pairs_[next_pair_[chosen_[i * k + slot]]++] = static_cast<uint32_t>(i * k + slot);
    }
  }
  for (size_t e = 0; e < part.experts.size(); ++e) {
    const uint32_t* pairs = pairs_.data() + first_pair_[e];
    const uint64_t count = first_pair_[e + 1] - first_pair_[e];
    if (count == 0) continue;
    float* in = room(expert_x_, count * hidden_);
    float* out = room(expert_y_, count * hidden_);
    expert_rows_.clear();
    for (uint64_t i = 0; i < count; ++i) {
      expert_rows_.push_back(rows[pairs[i] / k]);
      std::memcpy(in + i * hidden_, x + pairs[i] / k * hidden_, hidden_ * sizeof(float));
    }
    dense(part.experts[e], unmasked(where), expert_rows_, in, out);
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(results_.data() + pairs[i] * hidden_, out + i * hidden_, hidden_ * sizeof(float));
    }
  }
}

// ENGINE_FACTS §7, decisions 6.
void Pass::moe(const MoeFfn& part, const Where& where, RowInfos rows, const float* x, float* y) {
  const uint64_t n = rows.size(), k = part.top_k;
  route(part, where, rows, x);
  room(results_, n * k * hidden_);
  if (n == 1) {
    one_row_of_experts(part, where, rows.front(), x);
  } else {
    grouped_experts(part, where, rows, x);
  }
  if (part.shared) {
    dense(*part.shared, unmasked(where), rows, x, room(shared_, n * hidden_));
    if (part.shared_gate) {
      const Projection gate{part.shared_gate, {}, room(shared_gate_, n), 1};
      project(rows, where, x, hidden_, {&gate, 1});
    }
  }
  for_rows(n, [&](size_t i) {
    float* sum = y + i * hidden_;
    std::fill_n(sum, hidden_, 0.0f);
    // Ascending by expert, whatever order the selection had.
    int64_t last = -1;
    for (uint32_t done = 0; done < chosen_count_[i]; ++done) {
      uint32_t next = 0;
      int64_t expert = INT64_MAX;
      for (uint32_t slot = 0; slot < chosen_count_[i]; ++slot) {
        const int64_t candidate = chosen_[i * k + slot];
        if (candidate > last && candidate < expert) {
          expert = candidate;
          next = slot;
        }
      }
      kernels::add_scaled(sum, results_.data() + (i * k + next) * hidden_, weights_[i * k + next], hidden_);
      last = expert;
    }
    if (part.shared) {
      const float gate = part.shared_gate ? kernels::sigmoid_f32(shared_gate_[i]) : 1.0f;
      kernels::add_scaled(sum, shared_.data() + i * hidden_, gate, hidden_);
    }
  });
}

}  // namespace cortiq::engine
