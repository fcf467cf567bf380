#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/binding.h"
#include "kernels/attention.h"
#include "kernels/delta_rule.h"

namespace cortiq::engine {

/// Keys and values of one visit in pages of 64 positions that are allocated as the sequence grows. Pages that a window
/// has passed are given back.
class KvCache {
 public:
  KvCache(kernels::KvType type, uint32_t kv_heads, uint32_t head_dim, uint64_t window);
  /// Makes sure that positions below `length` have pages (those that the window still needs).
  void grow(uint64_t length);
  /// Keys [count][kv_heads·head_dim], `stride` floats apart, of positions that follow each other and share a sixteen.
  void store_keys(uint64_t position, uint32_t count, const float* k, uint64_t stride) noexcept;
  void store_values(uint64_t position, const float* v) noexcept;
  /// Gives back pages that no query at `position` or later sees.
  void release_before(uint64_t position) noexcept;
  /// Forgets positions from `length` on.
  void truncate(uint64_t length) noexcept;
  /// True if every key that a query at `position` sees is there (those below `position`).
  bool serves(uint64_t position) const noexcept;
  uint64_t window() const noexcept { return window_; }
  kernels::KvView view() const noexcept;
  uint64_t bytes() const noexcept;

 private:
  kernels::KvType type_;
  uint32_t kv_heads_, head_dim_;
  uint64_t window_, page_bytes_, first_page_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> pages_;  // K and V of a page together; empty once a window has passed
  std::vector<const uint8_t*> k_, v_;
};

/// The state of one gated delta net of one sequence: S at the last border (a multiple of 64 positions), the rows since
/// then, and the raw inputs of the convolution since then and kernel−1 before, so that it can be rolled back to any
/// position from the border on.
class DeltaCache {
 public:
  explicit DeltaCache(const DeltaNet& net);
  DeltaCache(const DeltaCache& other);
  DeltaCache& operator=(const DeltaCache& other);

  kernels::DeltaState& state() noexcept { return state_; }
  const kernels::DeltaState& state() const noexcept { return state_; }
  float* ring() noexcept { return ring_; }
  /// Remembers raw convolution inputs x [n][channels] that follow the pending rows already there. To be called before
  /// the delta rule of these rows.
  void remember(const float* x, uint64_t n) noexcept;
  /// Drops the last rows so that `pending` remain since the border.
  void rollback(uint32_t pending) noexcept;
  void clear() noexcept;
  uint64_t bytes() const noexcept { return memory_.size() * sizeof(float); }

 private:
  void place() noexcept;

  uint64_t channels_, taps_;  // taps: kernel − 1
  std::vector<float> memory_;
  kernels::DeltaState state_;
  float* ring_ = nullptr;     // [taps][channels]
  float* history_ = nullptr;  // [taps + 64][channels]
};

/// The residual rows (before the final norm) of the last positions, which an MTP head needs one step later.
class RecentRows {
 public:
  static constexpr uint64_t kKept = 64;
  explicit RecentRows(uint64_t width) : width_(width) {}
  void push(uint64_t position, const float* row);
  /// nullptr if the position is not kept.
  const float* find(uint64_t position) const noexcept;
  void truncate(uint64_t length) noexcept;
  void clear() noexcept { end_ = count_ = 0; }

 private:
  uint64_t width_, end_ = 0, count_ = 0;  // positions [end_ − count_, end_)
  std::vector<float> rows_;               // [kKept][width], position p at p mod kKept
};

/// One conversation: its ids, what was computed for them, and the binding under which it was computed. Used by one
/// thread at a time.
class Sequence {
 public:
  Sequence(std::shared_ptr<const Model> model, std::shared_ptr<const Binding> binding, kernels::KvType kv);

  const Model& model() const noexcept { return *model_; }
  const Binding& binding() const noexcept { return *binding_; }
  const std::shared_ptr<const Binding>& shared_binding() const noexcept { return binding_; }
  /// Ids that have gone through the decoder.
  std::span<const uint32_t> ids() const noexcept { return ids_; }
  uint64_t length() const noexcept { return ids_.size(); }

  /// Forgets everything after some position p ≤ length and returns it: the largest p at which the sequence can be
  /// continued exactly. Attention alone: p = length, unless a window has passed; recurrent layers: a position since the
  /// last border of 64, or that of a snapshot; else 0.
  uint64_t rewind(uint64_t length);
  /// What rewind(length) would return.
  uint64_t rewindable(uint64_t length) const noexcept;
  /// Remembers the recurrent states at the current position for a later rewind (the last two are kept). Nothing to do
  /// without recurrent layers.
  void snapshot();
  /// How many further rows may be appended and still be taken back one by one.
  uint64_t undoable_rows() const noexcept;

  /// Bytes of caches and states.
  uint64_t bytes() const noexcept;

 private:
  friend class Decoder;
  friend class Pass;
  struct Snapshot {
    uint64_t position;
    std::vector<DeltaCache> states;
  };
  /// The cache of the MTP head for one kind of hidden state: row p belongs to (hidden of p, id p+1).
  struct MtpCache {
    KvCache kv;
    uint64_t rows = 0;
    uint32_t last_id = 0;  ///< the id that the last row was computed with
    bool broken = false;   ///< a row is missing: no drafts until the sequence begins anew
  };
  /// True if the rows up to `position` are there or can be computed; a last row with another id than `next` is dropped.
  bool align(MtpCache& cache, uint64_t position, uint32_t next) noexcept;
  bool keys_are_there(uint64_t length) const noexcept;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Binding> binding_;
  std::vector<uint32_t> ids_;
  std::vector<KvCache> kv_;        // attention visits
  std::vector<DeltaCache> delta_;  // delta-net visits
  std::vector<uint32_t> place_;    // [visits]: index into kv_ or delta_
  std::deque<Snapshot> snapshots_;
  std::vector<MtpCache> mtp_;  // [2] by MtpHidden; empty without a head
  RecentRows recent_;
};

/// Finished sequences, kept so that a prompt that begins as one of them did is not computed again. Keyed by the whole
/// id sequence and the binding's identity (cases rows 94, 96, 149). Belongs to one decoder; one thread at a time.
class PrefixCache {
 public:
  explicit PrefixCache(size_t capacity) : capacity_(capacity) {}
  /// The sequence with the longest reusable beginning of `ids` under this binding, rewound to it (to at most
  /// ids.size() − 1, so that logits are computed); nullptr if none has one.
  std::unique_ptr<Sequence> take(std::span<const uint32_t> ids, const Binding& binding);
  void put(std::unique_ptr<Sequence> sequence);

 private:
  size_t capacity_;
  std::deque<std::unique_ptr<Sequence>> sequences_;  // oldest first
};

}  // namespace cortiq::engine
