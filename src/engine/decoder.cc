#include "engine/decoder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/pass.h"

namespace cortiq::engine {

namespace {

// The head's rows may lag behind by this many positions before a pass brings them up; less than RecentRows keeps.
constexpr uint64_t kMtpLag = 48;

}  // namespace

struct Decoder::State {
  State(const Model& model, ThreadPool& pool, kernels::Mode mode) : pass(model, pool, mode) {}

  Pass pass;
  std::vector<RowInfo> rows, head_rows, mtp_rows;
  std::vector<uint32_t> ids, mtp_ids;
  std::vector<float> h, normed, head_x, logits, mtp_x, draft_logits;
  std::vector<uint8_t> finite, draft_finite;
  uint64_t logits_count = 0;
  bool keep[2] = {false, false};
};

Decoder::Decoder(std::shared_ptr<const Model> model, ThreadPool& pool, const DecoderOptions& options)
    : model_(std::move(model)),
      mode_(options.mode),
      kv_(options.kv.value_or(options.mode == kernels::Mode::Exact ? kernels::KvType::F32 : kernels::KvType::F16)),
      max_rows_(std::max<uint64_t>(options.max_rows, 1)),
      pool_(pool),
      state_(std::make_unique<State>(*model_, pool, options.mode)) {}

Decoder::~Decoder() = default;

std::unique_ptr<Sequence> Decoder::sequence(std::shared_ptr<const Binding> binding) const {
  return std::make_unique<Sequence>(model_, std::move(binding), kv_);
}

void Decoder::use_mtp(bool pre, bool post) noexcept {
  state_->keep[static_cast<size_t>(MtpHidden::Pre)] = pre && has_mtp();
  state_->keep[static_cast<size_t>(MtpHidden::Post)] = post && has_mtp();
}

void Decoder::count_experts(ExpertCounts* counts) {
  state_->pass.expert_counts = counts;
  if (counts == nullptr) return;
  counts->assign(model_->blocks().size(), {});
  for (size_t layer = 0; layer < counts->size(); ++layer) {
    const auto* moe = std::get_if<MoeFfn>(&model_->blocks()[layer].ffn);
    if (moe != nullptr) (*counts)[layer].assign(moe->experts.size(), 0);
  }
}

void Decoder::check(Batch batch) const {
  uint64_t rows = 0;
  for (const Piece& piece : batch) {
    if (piece.ids.empty()) fail(ErrorKind::Usage, "a piece of a batch has no ids");
    rows += piece.ids.size();
    for (const uint32_t id : piece.ids) {
      if (id >= model_->vocab()) {
        fail(ErrorKind::Usage, "id {} is outside the vocabulary of {} ids", id, model_->vocab());
      }
    }
    const uint64_t length = piece.sequence->length() + piece.ids.size();
    if (length > model_->context()) {
      fail(ErrorKind::Bounds, "{} ids do not fit the context of {} positions", length, model_->context());
    }
  }
  if (rows > max_rows_) fail(ErrorKind::Usage, "a batch of {} rows is larger than the decoder's {}", rows, max_rows_);
}

void Decoder::forward(Batch batch, Observer* observer) {
  check(batch);
  State& s = *state_;
  Pass& pass = s.pass;
  const uint64_t hidden = model_->hidden(), layers = model_->blocks().size(), visits = model_->visits();
  pass.begin();
  pass.observer = observer;
  s.rows.clear();
  s.ids.clear();
  s.logits_count = 0;
  uint64_t longest = 0;
  for (const Piece& piece : batch) {
    const uint32_t binding = pass.binding_index(piece.sequence->binding());
    uint64_t position = piece.sequence->length();
    for (const uint32_t id : piece.ids) {
      s.rows.push_back({piece.sequence, position++, binding, static_cast<uint32_t>(s.rows.size())});
      s.ids.push_back(id);
    }
    longest = std::max(longest, position);
  }
  const uint64_t n = s.rows.size();
  if (n == 0) return;
  pass.reserve(longest);
  if (s.h.size() < n * hidden) s.h.resize(n * hidden);
  float* h = s.h.data();
  pass.embed(s.rows, s.ids, h);
  if (observer != nullptr) observer->embedded(h, n);

  for (uint64_t visit = 0; visit < visits; ++visit) {
    const uint64_t layer = visit % layers;
    pass.block_where_open(model_->blocks()[layer], {visit, layer}, s.rows, h);
    if (observer != nullptr) {
      observer->visited(visit, h, n);
      if (!observer->more(visit)) {
        append(batch);
        return;
      }
    }
    // The norm between two passes belongs to the pass (decisions 18).
    if (model_->arch().loop_final_norm && layer + 1 == layers && visit + 1 < visits) {
      pass.norm(s.rows, model_->final_norm(), h, h);
      if (observer != nullptr) observer->loop_normed(visit / layers, h, n);
    }
  }
  if (observer != nullptr) {
    if (s.normed.size() < n * hidden) s.normed.resize(n * hidden);
    pass.norm(s.rows, model_->final_norm(), h, s.normed.data());
    observer->finished(s.normed.data(), n);
  }
  compute_logits(batch, h);
  if (s.keep[0] || s.keep[1]) keep_mtp(batch, h);

  append(batch);
}

void Decoder::append(Batch batch) {
  for (const Piece& piece : batch) {
    Sequence& sequence = *piece.sequence;
    sequence.ids_.insert(sequence.ids_.end(), piece.ids.begin(), piece.ids.end());
    // One page of slack, so that a rollback finds its keys.
    const uint64_t length = sequence.length();
    for (KvCache& cache : sequence.kv_) cache.release_before(length > kernels::kKvPage ? length - kernels::kKvPage : 0);
  }
  state_->pass.observer = nullptr;
}

void Decoder::compute_logits(Batch batch, const float* h) {
  State& s = *state_;
  const uint64_t hidden = model_->hidden();
  s.head_rows.clear();
  uint64_t row = 0;
  for (const Piece& piece : batch) {
    for (uint64_t i = 0; i < piece.ids.size(); ++i, ++row) {
      const bool wanted =
          piece.logits == Piece::Logits::All || (piece.logits == Piece::Logits::Last && i + 1 == piece.ids.size());
      if (wanted) s.head_rows.push_back(s.rows[row]);
    }
  }
  s.logits_count = s.head_rows.size();
  if (s.logits_count == 0) return;
  if (s.head_x.size() < s.logits_count * hidden) s.head_x.resize(s.logits_count * hidden);
  if (s.logits.size() < s.logits_count * model_->vocab()) s.logits.resize(s.logits_count * model_->vocab());
  if (s.finite.size() < s.logits_count) s.finite.resize(s.logits_count);
  for (uint64_t i = 0; i < s.logits_count; ++i) {
    std::memcpy(s.head_x.data() + i * hidden, h + s.head_rows[i].index * hidden, hidden * sizeof(float));
  }
  s.pass.norm(s.head_rows, model_->final_norm(), s.head_x.data(), s.head_x.data());
  s.pass.head(s.head_rows, s.head_x.data(), s.logits.data(), s.finite.data());
}

// Remembers hidden states for the MTP head and, where more would be outstanding than are remembered, computes its rows.
void Decoder::keep_mtp(Batch batch, const float* h) {
  State& s = *state_;
  const uint64_t hidden = model_->hidden();
  for (size_t kind = 0; kind < 2; ++kind) {
    if (!s.keep[kind]) continue;
    s.mtp_rows.clear();
    s.mtp_ids.clear();
    s.mtp_x.clear();
    uint64_t first_row = 0;
    for (const Piece& piece : batch) {
      Sequence& sequence = *piece.sequence;
      Sequence::MtpCache& cache = sequence.mtp_[kind];
      const uint64_t start = sequence.length(), end = start + piece.ids.size();
      const bool aligned = sequence.align(cache, start, piece.ids.front());
      if (aligned && end - cache.rows > kMtpLag) {
        for (uint64_t p = cache.rows; p + 1 < end; ++p) {
          const float* x = p < start ? sequence.recent_.find(p) : h + (first_row + p - start) * hidden;
          const uint32_t next = p + 1 < start ? sequence.ids_[p + 1] : piece.ids[p + 1 - start];
          s.mtp_rows.push_back({&sequence, p, s.rows[first_row].binding, static_cast<uint32_t>(s.mtp_rows.size())});
          s.mtp_ids.push_back(next);
          s.mtp_x.insert(s.mtp_x.end(), x, x + hidden);
        }
        cache.rows = end - 1;
        cache.last_id = piece.ids.back();
      }
      first_row += piece.ids.size();
    }
    if (!s.mtp_rows.empty()) s.pass.mtp(s.mtp_rows, s.mtp_ids, static_cast<MtpHidden>(kind), s.mtp_x.data());
  }
  uint64_t row = 0;
  for (const Piece& piece : batch) {
    for (uint64_t i = 0; i < piece.ids.size(); ++i, ++row) {
      if (piece.ids.size() - i <= RecentRows::kKept) {
        piece.sequence->recent_.push(piece.sequence->length() + i, h + row * hidden);
      }
    }
  }
}

void Decoder::draft(std::span<Drafter> drafters, MtpHidden hidden_kind) {
  State& s = *state_;
  const uint64_t hidden = model_->hidden();
  const MtpHead& head = *model_->mtp();
  s.pass.begin();
  s.mtp_rows.clear();
  s.mtp_ids.clear();
  s.mtp_x.clear();
  uint64_t longest = 0;
  for (Drafter& drafter : drafters) {
    Sequence& sequence = *drafter.sequence;
    Sequence::MtpCache& cache = sequence.mtp_[static_cast<size_t>(hidden_kind)];
    const uint64_t length = sequence.length();
    drafter.count = 0;
    // Rows that are wanted again are computed again.
    const uint64_t wanted = std::min(std::max<uint64_t>(drafter.predictions, 1), length);
    if (length == 0 || cache.broken) continue;
    uint64_t first = std::min(cache.rows, length - wanted);
    while (first < cache.rows && sequence.recent_.find(first) == nullptr) ++first;
    if (first >= length || sequence.recent_.find(first) == nullptr) {
      cache.broken = true;
      continue;
    }
    cache.rows = length;
    cache.last_id = drafter.next;
    const uint32_t binding = s.pass.binding_index(sequence.binding());
    for (uint64_t p = first; p < length; ++p) {
      const float* x = sequence.recent_.find(p);
      s.mtp_rows.push_back({&sequence, p, binding, static_cast<uint32_t>(s.mtp_rows.size())});
      s.mtp_ids.push_back(p + 1 < length ? sequence.ids_[p + 1] : drafter.next);
      s.mtp_x.insert(s.mtp_x.end(), x, x + hidden);
    }
    drafter.count = std::min(wanted, length - first);
    drafter.first = s.mtp_rows.size() - drafter.count;  // of all rows; made one of the wanted ones below
    longest = std::max(longest, length);
  }
  if (s.mtp_rows.empty()) return;
  s.pass.reserve(longest);
  s.pass.mtp(s.mtp_rows, s.mtp_ids, hidden_kind, s.mtp_x.data());

  s.head_rows.clear();
  for (Drafter& drafter : drafters) {
    const uint64_t from = drafter.first;
    drafter.first = s.head_rows.size();
    for (uint64_t i = 0; i < drafter.count; ++i) {
      std::memmove(s.mtp_x.data() + s.head_rows.size() * hidden, s.mtp_x.data() + (from + i) * hidden,
                   hidden * sizeof(float));
      s.head_rows.push_back(s.mtp_rows[from + i]);
    }
  }
  const uint64_t count = s.head_rows.size();
  if (s.draft_logits.size() < count * model_->vocab()) s.draft_logits.resize(count * model_->vocab());
  if (s.draft_finite.size() < count) s.draft_finite.resize(count);
  s.pass.norm(s.head_rows, head.norm, s.mtp_x.data(), s.mtp_x.data());
  s.pass.head(s.head_rows, s.mtp_x.data(), s.draft_logits.data(), s.draft_finite.data());
}

std::span<float> Decoder::draft_logits(uint64_t row) noexcept {
  return {state_->draft_logits.data() + row * model_->vocab(), model_->vocab()};
}

void Decoder::prefill(Sequence& sequence, std::span<const uint32_t> ids) {
  while (!ids.empty()) {
    const auto part = ids.first(std::min<size_t>(ids.size(), max_rows_));
    ids = ids.subspan(part.size());
    const Piece piece{&sequence, part, ids.empty() ? Piece::Logits::Last : Piece::Logits::None};
    forward({&piece, 1});
  }
}

uint64_t Decoder::logits_count() const noexcept { return state_->logits_count; }

std::span<float> Decoder::logits(uint64_t row) noexcept {
  return {state_->logits.data() + row * model_->vocab(), model_->vocab()};
}

bool Decoder::finite(uint64_t row) const noexcept { return state_->finite[row] != 0; }

void Decoder::fail_not_finite(uint64_t position) {
  fail(ErrorKind::Parse,
       "the logits after position {} are not finite: the weights or the chosen number format do not carry this model; "
       "`cortiq verify` tells whether the file is damaged",
       position);
}

}  // namespace cortiq::engine
