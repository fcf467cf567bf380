#include "engine/sequence.h"

#include <algorithm>
#include <cstring>

namespace cortiq::engine {

using kernels::kKvPage;

namespace {

// Recurrent states are known from here on; closed layers have none and do not matter.
uint64_t border_of(uint64_t length) { return length - length % kernels::kDeltaChunk; }

}  // namespace

KvCache::KvCache(kernels::KvType type, uint32_t kv_heads, uint32_t head_dim, uint64_t window)
    : type_(type),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      window_(window),
      page_bytes_(kernels::kv_page_bytes(type, kv_heads, head_dim)) {}

void KvCache::grow(uint64_t length) {
  const uint64_t needed = (length + kKvPage - 1) / kKvPage;
  while (pages_.size() < needed) {
    std::unique_ptr<uint8_t[]> page(new uint8_t[2 * page_bytes_]);  // not cleared: only what was stored is ever used
    k_.push_back(page.get());
    v_.push_back(page.get() + page_bytes_);
    pages_.push_back(std::move(page));
  }
}

void KvCache::store_keys(uint64_t position, uint32_t count, const float* k, uint64_t stride) noexcept {
  kernels::store_keys(type_, kv_heads_, head_dim_, static_cast<uint32_t>(position % kKvPage), count, k, stride,
                      pages_[position / kKvPage].get());
}

void KvCache::store_values(uint64_t position, const float* v) noexcept {
  kernels::store_values(type_, kv_heads_, head_dim_, static_cast<uint32_t>(position % kKvPage), v,
                        pages_[position / kKvPage].get() + page_bytes_);
}

void KvCache::release_before(uint64_t position) noexcept {
  if (window_ == 0 || position + 1 <= window_) return;
  const uint64_t oldest = (position + 1 - window_) / kKvPage;
  for (; first_page_ < std::min<uint64_t>(oldest, pages_.size()); ++first_page_) {
    pages_[first_page_].reset();
    k_[first_page_] = v_[first_page_] = nullptr;
  }
}

void KvCache::truncate(uint64_t length) noexcept {
  const uint64_t kept = (length + kKvPage - 1) / kKvPage;
  if (kept >= pages_.size()) return;
  pages_.resize(kept);
  k_.resize(kept);
  v_.resize(kept);
  first_page_ = std::min(first_page_, kept);
}

bool KvCache::serves(uint64_t position) const noexcept {
  const uint64_t oldest = window_ == 0 || position + 1 <= window_ ? 0 : position + 1 - window_;
  return first_page_ * kKvPage <= oldest;
}

kernels::KvView KvCache::view() const noexcept {
  kernels::KvView view;
  view.type = type_;
  view.kv_heads = kv_heads_;
  view.head_dim = head_dim_;
  view.k_pages = k_.data();
  view.v_pages = v_.data();
  return view;
}

uint64_t KvCache::bytes() const noexcept { return (pages_.size() - first_page_) * 2 * page_bytes_; }

DeltaCache::DeltaCache(const DeltaNet& net) : channels_(net.channels()), taps_(net.kernel - 1) {
  state_.k_heads = net.k_heads;
  state_.v_heads = net.v_heads;
  state_.dk = net.dk;
  state_.dv = net.dv;
  const uint64_t chunk = kernels::kDeltaChunk;
  memory_.resize(net.value_dim() * net.dk + (net.key_dim() + net.value_dim() + net.v_heads) * chunk +
                 (2 * taps_ + chunk) * channels_);
  place();
}

DeltaCache::DeltaCache(const DeltaCache& other)
    : channels_(other.channels_), taps_(other.taps_), memory_(other.memory_), state_(other.state_) {
  place();
}

DeltaCache& DeltaCache::operator=(const DeltaCache& other) {
  channels_ = other.channels_;
  taps_ = other.taps_;
  memory_ = other.memory_;
  state_ = other.state_;
  place();
  return *this;
}

void DeltaCache::place() noexcept {
  const uint64_t chunk = kernels::kDeltaChunk;
  float* next = memory_.data();
  const auto take = [&](uint64_t count) {
    float* here = next;
    next += count;
    return here;
  };
  state_.state = take(uint64_t{state_.v_heads} * state_.dk * state_.dv);
  state_.k = take(uint64_t{state_.k_heads} * chunk * state_.dk);
  state_.u = take(uint64_t{state_.v_heads} * chunk * state_.dv);
  state_.decay = take(uint64_t{state_.v_heads} * chunk);
  ring_ = take(taps_ * channels_);
  history_ = take((taps_ + chunk) * channels_);
}

void DeltaCache::remember(const float* x, uint64_t n) noexcept {
  const uint64_t before = taps_ + state_.pending, total = state_.pending + n;
  const uint64_t shift = total / kernels::kDeltaChunk * kernels::kDeltaChunk;
  // Rows move towards the front, so ascending order never overwrites one that is still needed.
  for (uint64_t row = 0; row < taps_ + total - shift; ++row) {
    const uint64_t from = row + shift;
    if (from < before && shift == 0) continue;
    const float* source = from < before ? history_ + from * channels_ : x + (from - before) * channels_;
    std::memcpy(history_ + row * channels_, source, channels_ * sizeof(float));
  }
}

void DeltaCache::rollback(uint32_t pending) noexcept {
  state_.pending = pending;
  std::memcpy(ring_, history_ + pending * channels_, taps_ * channels_ * sizeof(float));
}

void DeltaCache::clear() noexcept {
  std::fill(memory_.begin(), memory_.end(), 0.0f);
  state_.pending = 0;
}

void RecentRows::push(uint64_t position, const float* row) {
  if (rows_.empty()) rows_.resize(kKept * width_);
  if (position != end_) count_ = 0;
  std::memcpy(rows_.data() + position % kKept * width_, row, width_ * sizeof(float));
  end_ = position + 1;
  count_ = std::min(count_ + 1, kKept);
}

const float* RecentRows::find(uint64_t position) const noexcept {
  if (position >= end_ || position + count_ < end_) return nullptr;
  return rows_.data() + position % kKept * width_;
}

void RecentRows::truncate(uint64_t length) noexcept {
  if (length >= end_) return;
  const uint64_t dropped = end_ - length;
  count_ = count_ > dropped ? count_ - dropped : 0;
  end_ = length;
}

Sequence::Sequence(std::shared_ptr<const Model> model, std::shared_ptr<const Binding> binding, kernels::KvType kv)
    : model_(std::move(model)), binding_(std::move(binding)), recent_(model_->hidden()) {
  const cmf::Arch& arch = model_->arch();
  const auto kv_heads = static_cast<uint32_t>(arch.num_kv_heads), head_dim = static_cast<uint32_t>(arch.head_dim);
  const auto blocks = model_->blocks();
  for (uint64_t visit = 0; visit < model_->visits(); ++visit) {
    const Block& block = blocks[visit % blocks.size()];
    if (const auto* attention = std::get_if<Attention>(&block.mixer)) {
      place_.push_back(static_cast<uint32_t>(kv_.size()));
      kv_.emplace_back(kv, kv_heads, head_dim, attention->window);
    } else {
      place_.push_back(static_cast<uint32_t>(delta_.size()));
      delta_.emplace_back(std::get<DeltaNet>(block.mixer));
    }
  }
  if (model_->mtp() != nullptr) {
    for (int kind = 0; kind < 2; ++kind) mtp_.push_back({KvCache(kv, kv_heads, head_dim, 0), 0, 0, false});
  }
}

bool Sequence::keys_are_there(uint64_t length) const noexcept {
  return std::all_of(kv_.begin(), kv_.end(), [&](const KvCache& cache) { return cache.serves(length); });
}

uint64_t Sequence::rewindable(uint64_t length) const noexcept {
  if (length >= ids_.size()) return ids_.size();
  if (delta_.empty() || length >= border_of(ids_.size())) {
    // An MTP head continues from the hidden state of the position before; without it one id is computed again.
    if (length > 0 && !mtp_.empty() && mtp_.front().rows + mtp_.back().rows > 0 &&
        recent_.find(length - 1) == nullptr && delta_.empty()) {
      --length;
    }
    if (keys_are_there(length)) return length;
  }
  for (auto snapshot = snapshots_.rbegin(); snapshot != snapshots_.rend(); ++snapshot) {
    if (snapshot->position <= length && keys_are_there(snapshot->position)) return snapshot->position;
  }
  return 0;
}

uint64_t Sequence::rewind(uint64_t length) {
  const uint64_t target = rewindable(length);
  if (target == ids_.size()) return target;
  if (!delta_.empty()) {
    const uint64_t border = border_of(ids_.size());
    const auto saved = std::find_if(snapshots_.begin(), snapshots_.end(),
                                    [&](const Snapshot& snapshot) { return snapshot.position == target; });
    for (size_t i = 0; i < delta_.size(); ++i) {
      if (target >= border) {
        delta_[i].rollback(static_cast<uint32_t>(target - border));
      } else if (target == 0) {
        delta_[i].clear();
      } else {
        delta_[i] = saved->states[i];
      }
    }
    while (!snapshots_.empty() && snapshots_.back().position > target) snapshots_.pop_back();
  }
  for (KvCache& cache : kv_) cache.truncate(target);
  // Row target − 1 was computed with an id that goes now, and may come again.
  for (MtpCache& cache : mtp_) {
    if (cache.rows > target) {
      cache.rows = target;
      cache.last_id = ids_[target];
      cache.kv.truncate(target);
    }
    cache.broken = cache.broken && target != 0;
  }
  recent_.truncate(target);
  ids_.resize(target);
  return target;
}

bool Sequence::align(MtpCache& cache, uint64_t position, uint32_t next) noexcept {
  if (cache.broken) return false;
  if (cache.rows == position && position > 0 && cache.last_id != next) --cache.rows;
  cache.broken = cache.rows < position && recent_.find(cache.rows) == nullptr;
  return !cache.broken;
}

void Sequence::snapshot() {
  if (delta_.empty() || ids_.empty()) return;
  if (!snapshots_.empty() && snapshots_.back().position == ids_.size()) return;
  if (snapshots_.size() == 2) snapshots_.pop_front();
  snapshots_.push_back({ids_.size(), delta_});
}

uint64_t Sequence::undoable_rows() const noexcept {
  const uint64_t most = kKvPage - 1;
  return delta_.empty() ? most : most - ids_.size() % kernels::kDeltaChunk;
}

uint64_t Sequence::bytes() const noexcept {
  uint64_t total = 0;
  for (const KvCache& cache : kv_) total += cache.bytes();
  for (const MtpCache& cache : mtp_) total += cache.kv.bytes();
  for (const DeltaCache& cache : delta_) total += cache.bytes();
  for (const Snapshot& snapshot : snapshots_) {
    for (const DeltaCache& cache : snapshot.states) total += cache.bytes();
  }
  return total;
}

std::unique_ptr<Sequence> PrefixCache::take(std::span<const uint32_t> ids, const Binding& binding) {
  uint64_t longest = 0, shared = 0;
  auto best = sequences_.end();
  for (auto it = sequences_.begin(); it != sequences_.end(); ++it) {
    const Sequence& sequence = **it;
    if (sequence.binding().identity() != binding.identity() || ids.empty()) continue;
    const auto known = sequence.ids();
    const size_t limit = std::min(known.size(), ids.size() - 1);
    const auto common = std::mismatch(known.begin(), known.begin() + static_cast<ptrdiff_t>(limit), ids.begin()).first;
    const auto length = static_cast<uint64_t>(common - known.begin());
    const uint64_t usable = sequence.rewindable(length);
    if (usable > longest) {
      longest = usable;
      shared = length;
      best = it;
    }
  }
  if (best == sequences_.end()) return nullptr;
  std::unique_ptr<Sequence> sequence = std::move(*best);
  sequences_.erase(best);
  sequence->rewind(shared);
  return sequence;
}

void PrefixCache::put(std::unique_ptr<Sequence> sequence) {
  if (capacity_ == 0) return;
  if (sequences_.size() == capacity_) sequences_.pop_front();
  sequences_.push_back(std::move(sequence));
}

}  // namespace cortiq::engine
