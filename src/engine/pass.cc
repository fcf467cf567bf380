#include "engine/pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cortiq::engine {

Pass::Pass(const Model& model, ThreadPool& pool, kernels::Mode mode)
    : model_(model),
      pool_(pool),
      mode_(mode),
      hidden_(model.hidden()),
      eps_(model.arch().rms_norm_eps),
      one_plus_(model.arch().norm_style == cmf::NormStyle::Gemma) {
  for (const kernels::RopeProfile& profile : model.rope_profiles()) ropes_.emplace_back(profile);
}

uint32_t Pass::binding_index(const Binding& binding) {
  for (uint32_t i = 0; i < bindings_.size(); ++i) {
    if (bindings_[i] == &binding || bindings_[i]->identity() == binding.identity()) return i;
  }
  bindings_.push_back(&binding);
  return static_cast<uint32_t>(bindings_.size() - 1);
}

void Pass::reserve(uint64_t length) {
  const uint64_t block = 256;
  for (kernels::RopeTable& table : ropes_) table.reserve((length + block - 1) / block * block);
}

KvCache& Pass::kv(const RowInfo& row, const Where& where) const noexcept {
  Sequence& sequence = *row.sequence;
  return where.mtp ? sequence.mtp_[static_cast<size_t>(*where.mtp)].kv : sequence.kv_[sequence.place_[where.visit]];
}

void Pass::embed(RowInfos rows, std::span<const uint32_t> ids, float* out) {
  const auto factor = static_cast<float>(model_.arch().embed_multiplier);
  for_rows(rows.size(), [&](size_t i) {
    float* row = out + i * hidden_;
    binding(rows[i]).matrix(model_.embedding()).decode_row(ids[i], row);
    if (factor != 1.0f) kernels::scale(row, factor, hidden_);
  });
}

void Pass::norm(RowInfos rows, VectorRef weight, const float* x, float* y) {
  for_rows(rows.size(), [&](size_t i) {
    const float* in = x + i * hidden_;
    float* out = y + i * hidden_;
    if (weight) {
      kernels::rms_norm(in, binding(rows[i]).vector(weight), hidden_, eps_, one_plus_, out);
    } else if (in != out) {
      std::memcpy(out, in, hidden_ * sizeof(float));
    }
  });
}

void Pass::block(const Block& block, const Where& where, RowInfos rows, float* h) {
  const uint64_t n = rows.size();
  float* x = room(x_, n * hidden_);
  float* y = room(y_, n * hidden_);
  norm(rows, block.input_norm, h, x);
  if (const auto* part = std::get_if<Attention>(&block.mixer)) {
    attention(*part, where, rows, x, y);
  } else {
    delta_net(std::get<DeltaNet>(block.mixer), where, rows, x, y);
  }
  if (block.post_mixer_norm) norm(rows, block.post_mixer_norm, y, y);
  for_rows(n, [&](size_t i) { kernels::add(h + i * hidden_, y + i * hidden_, hidden_); });

  norm(rows, block.pre_ffn_norm, h, x);
  if (const auto* part = std::get_if<DenseFfn>(&block.ffn)) {
    dense(*part, where, rows, x, y);
  } else {
    moe(std::get<MoeFfn>(block.ffn), where, rows, x, y);
  }
  if (block.post_ffn_norm) norm(rows, block.post_ffn_norm, y, y);
  for_rows(n, [&](size_t i) { kernels::add(h + i * hidden_, y + i * hidden_, hidden_); });
}

void Pass::block_where_open(const Block& part, const Where& where, RowInfos rows, float* h) {
  const bool all =
      std::all_of(bindings_.begin(), bindings_.end(), [&](const Binding* b) { return b->open(where.layer); });
  if (all) {
    block(part, where, rows, h);
    return;
  }
  open_rows_.clear();
  for (const RowInfo& row : rows) {
    if (binding(row).open(where.layer)) open_rows_.push_back(row);
  }
  if (open_rows_.empty()) return;
  float* open = room(open_h_, open_rows_.size() * hidden_);
  const uint32_t first = rows.front().index;
  for (size_t i = 0; i < open_rows_.size(); ++i) {
    std::memcpy(open + i * hidden_, h + (open_rows_[i].index - first) * hidden_, hidden_ * sizeof(float));
  }
  block(part, where, open_rows_, open);
  for (size_t i = 0; i < open_rows_.size(); ++i) {
    std::memcpy(h + (open_rows_[i].index - first) * hidden_, open + i * hidden_, hidden_ * sizeof(float));
  }
}

void Pass::head(RowInfos rows, const float* x, float* logits, uint8_t* finite) {
  const uint64_t vocab = model_.vocab();
  const Projection projection{model_.head(), {}, logits, vocab};
  project(rows, {}, x, hidden_, {&projection, 1});
  const auto multiplier = static_cast<float>(model_.arch().logit_multiplier.value_or(1));
  const auto cap = static_cast<float>(model_.arch().final_logit_softcapping.value_or(0));
  for_rows(rows.size(), [&](size_t i) {
    float* row = logits + i * vocab;
    float* end = row + vocab;
    if (multiplier != 1.0f) kernels::scale(row, multiplier, vocab);
    if (cap != 0.0f) kernels::soft_cap(row, cap, vocab);
    // A cap turns an overflow into a number, so a NaN is all that can be wrong after it.
    const bool bad = std::any_of(row, end, [](float value) { return !(value < HUGE_VALF); });
    finite[i] = !bad && std::any_of(row, end, [](float value) { return value > -HUGE_VALF; }) ? 1 : 0;
  });
}

void Pass::mtp(RowInfos rows, std::span<const uint32_t> ids, MtpHidden kind, float* x) {
  const MtpHead& head = *model_.mtp();
  const uint64_t n = rows.size();
  float* both = room(mtp_in_, 3 * n * hidden_);  // [n][2·hidden], then the embeddings [n][hidden]
  float* embedded = both + 2 * n * hidden_;
  embed(rows, ids, embedded);
  for_rows(n, [&](size_t i) {
    float* out = both + 2 * i * hidden_;
    const Binding& bound = binding(rows[i]);
    kernels::rms_norm(embedded + i * hidden_, bound.vector(head.embedding_norm), hidden_, eps_, one_plus_, out);
    float* in = x + i * hidden_;
    if (kind == MtpHidden::Post) {
      kernels::rms_norm(in, bound.vector(model_.final_norm()), hidden_, eps_, one_plus_, in);
    }
    kernels::rms_norm(in, bound.vector(head.hidden_norm), hidden_, eps_, one_plus_, out + hidden_);
  });
  const Where where{0, 0, false, kind};
  const Projection projection{head.projection, {}, x, hidden_};
  project(rows, where, both, 2 * hidden_, {&projection, 1});
  block(head.block, where, rows, x);
}

}  // namespace cortiq::engine
