#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/sequence.h"
#include "kernels/matmul.h"

namespace cortiq::engine {

/// Ids to append to one sequence. A sequence stands in a batch at most once.
struct Piece {
  enum class Logits { None, Last, All };
  Sequence* sequence = nullptr;
  std::span<const uint32_t> ids;
  Logits logits = Logits::Last;
};
using Batch = std::span<const Piece>;

/// Sees what goes through the decoder; rows are the batch's, in its order, all positions one after another.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Input of block 0 [rows][hidden].
  virtual void embedded(const float* /*h*/, uint64_t /*rows*/) {}
  /// Residual stream after a visit [rows][hidden].
  virtual void visited(uint64_t /*visit*/, const float* /*h*/, uint64_t /*rows*/) {}
  /// After the norm between two passes of a looped stack.
  virtual void loop_normed(uint64_t /*pass*/, const float* /*h*/, uint64_t /*rows*/) {}
  /// After the last norm [rows][hidden]; asked for all rows if an observer is there.
  virtual void finished(const float* /*h*/, uint64_t /*rows*/) {}
  /// Experts chosen for one row in descending order of selection score, with their final weights.
  virtual void routed(uint64_t /*visit*/, uint64_t /*row*/, std::span<const uint32_t> /*experts*/,
                      std::span<const float> /*weights*/) {}
  /// False: the pass may stop after this visit (routing needs only the first layers).
  virtual bool more(uint64_t /*visit*/) { return true; }
};

struct DecoderOptions {
  kernels::Mode mode = kernels::Mode::Fast;
  std::optional<kernels::KvType> kv;  ///< absent: F32 in Exact, F16 otherwise
  uint64_t max_rows = 512;            ///< rows of one forward(); longer prompts go in pieces
};

/// Which hidden state feeds the MTP head: before or after the trunk's final norm (ENGINE_FACTS §12).
enum class MtpHidden { Pre, Post };

/// Routing counts [layers][experts], summed over everything that goes through (CMF_MOE_STATS).
using ExpertCounts = std::vector<std::vector<uint64_t>>;

/// Runs models. Owns all scratch memory; nothing is allocated, locked or parsed per token once buffers have their
/// size. One thread at a time; several decoders may share a model.
class Decoder {
 public:
  Decoder(std::shared_ptr<const Model> model, ThreadPool& pool, const DecoderOptions& options = {});
  ~Decoder();

  const Model& model() const noexcept { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const noexcept { return model_; }
  kernels::Mode mode() const noexcept { return mode_; }
  kernels::KvType kv_type() const noexcept { return kv_; }
  uint64_t max_rows() const noexcept { return max_rows_; }
  ThreadPool& pool() const noexcept { return pool_; }

  std::unique_ptr<Sequence> sequence(std::shared_ptr<const Binding> binding) const;

  /// Appends each piece's ids to its sequence and computes the logits asked for. At most max_rows() ids in all, none of
  /// them beyond the vocabulary (Usage), no sequence beyond the context (Bounds). Everything in the project that runs a
  /// model comes through here; results do not depend on how ids are cut into pieces or on what else is in the batch.
  ///
  /// Wrong input throws before anything is changed. If the observer stops the pass early, there are no logits and the
  /// sequences are good for further passes of that kind only.
  void forward(Batch batch, Observer* observer = nullptr);

  /// Appends ids of any number in pieces of max_rows(); logits of the last one are then at logits(0).
  void prefill(Sequence& sequence, std::span<const uint32_t> ids);

  /// Rows of logits of the last forward(), in the batch's order; overwritten by the next one, free to be changed.
  uint64_t logits_count() const noexcept;
  std::span<float> logits(uint64_t row) noexcept;
  /// False if a row holds NaN or infinity, or nothing but −infinity: no token may be taken from it (cases row 115).
  bool finite(uint64_t row) const noexcept;
  /// Error of such a row.
  [[noreturn]] static void fail_not_finite(uint64_t position);

  // Multi-token prediction. The head's row p takes the hidden state of position p and id p+1 and predicts id p+2. Rows
  // are computed when drafts are asked for (long prompts: as they pass), so a rejected draft costs the head nothing.
  bool has_mtp() const noexcept { return model_->mtp() != nullptr; }
  /// Which kinds of hidden state forward() keeps rows for.
  void use_mtp(bool pre, bool post) noexcept;

  struct Drafter {
    Sequence* sequence;
    uint32_t next;                  ///< the id chosen after the sequence's last one, not yet forwarded
    uint64_t predictions = 1;       ///< wanted: of the last rows; the last is the draft of the id after `next`
    uint64_t first = 0, count = 0;  ///< result: rows of draft_logits(); 0 if the head's cache has a hole
  };
  /// A sequence stands there at most once.
  void draft(std::span<Drafter> drafters, MtpHidden hidden);
  std::span<float> draft_logits(uint64_t row) noexcept;

  /// Counts experts from now on into *counts (which is given its size); nullptr: no more.
  void count_experts(ExpertCounts* counts);

 private:
  struct State;
  void check(Batch batch) const;
  void append(Batch batch);
  void compute_logits(Batch batch, const float* h);
  void keep_mtp(Batch batch, const float* h);

  std::shared_ptr<const Model> model_;
  kernels::Mode mode_;
  kernels::KvType kv_;
  uint64_t max_rows_;
  ThreadPool& pool_;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::engine
