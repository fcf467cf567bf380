#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/decoder.h"
#include "engine/expert_choice.h"
#include "kernels/elementwise.h"

namespace cortiq::engine {

/// One token row on its way through the blocks.
struct RowInfo {
  Sequence* sequence;
  uint64_t position;
  uint32_t binding;  ///< index into Pass::bindings
  uint32_t index;    ///< row of the batch
};
using RowInfos = std::span<const RowInfo>;

/// Where in the model a block stands: which cache its attention uses and which part of a mask holds for it.
struct Where {
  uint64_t visit = 0, layer = 0;
  bool masked = true;                 ///< false: no mask holds here (the MTP head; neurons of experts)
  std::optional<MtpHidden> mtp = {};  ///< the head's block, fed with this kind of hidden state
};

/// One product of a projection; rows with different bindings may mean different matrices by it.
struct Projection {
  enum class Part { Whole, LiveRows, LiveColumns };
  WeightRef weight;
  VectorRef bias;
  float* y = nullptr;
  uint64_t stride = 0;
  Part part = Part::Whole;
};

/// The parts of a forward pass and the scratch memory they share. Buffers grow to the largest pass and stay.
class Pass {
 public:
  Pass(const Model& model, ThreadPool& pool, kernels::Mode mode);

  /// The distinct bindings of the rows to come; what computes the same counts once.
  void begin() { bindings_.clear(); }
  uint32_t binding_index(const Binding& binding);
  /// Rotation tables for positions below `length`.
  void reserve(uint64_t length);

  /// out [ids][hidden]: embedding rows times the embedding multiplier.
  void embed(RowInfos rows, std::span<const uint32_t> ids, float* out);
  /// y = norm(x), each [rows][hidden]; x may be y. An empty reference copies.
  void norm(RowInfos rows, VectorRef weight, const float* x, float* y);
  /// h [rows][hidden] through one block.
  void block(const Block& block, const Where& where, RowInfos rows, float* h);
  /// The same for those rows whose mask keeps the layer.
  void block_where_open(const Block& block, const Where& where, RowInfos rows, float* h);
  /// logits [rows][vocab] of normed rows x, multiplier and cap applied; finite[row] = 0 where no token may be taken.
  void head(RowInfos rows, const float* x, float* logits, uint8_t* finite);
  /// x [rows][hidden] becomes the output of the MTP block for (x, ids).
  void mtp(RowInfos rows, std::span<const uint32_t> ids, MtpHidden kind, float* x);

  Observer* observer = nullptr;
  ExpertCounts* expert_counts = nullptr;

 private:
  template <class Body>
  void for_rows(size_t rows, const Body& body) {
    if (rows < 4) {
      for (size_t i = 0; i < rows; ++i) body(i);
    } else {
      pool_.run(rows, body);
    }
  }
  static float* room(std::vector<float>& buffer, uint64_t size) {
    if (buffer.size() < size) buffer.resize(size);
    return buffer.data();
  }
  const Binding& binding(const RowInfo& row) const noexcept { return *bindings_[row.binding]; }
  const std::vector<uint32_t>* live(uint32_t binding, const Where& where) const noexcept {
    return where.masked ? bindings_[binding]->live(where.visit) : nullptr;
  }
  KvCache& kv(const RowInfo& row, const Where& where) const noexcept;

  void project(RowInfos rows, const Where& where, const float* x, uint64_t width,
               std::span<const Projection> projections);
  void multiply(uint32_t binding, const Where& where, const float* x, uint64_t rows, uint64_t width, uint64_t stride,
                std::span<const Projection> projections);
  void project_apart(RowInfos rows, const Where& where, const float* x, uint64_t width, const Projection& projection);

  void attention(const Attention& part, const Where& where, RowInfos rows, const float* x, float* y);
  void store_keys(RowInfos rows, const Where& where, const float* k, uint64_t width);
  void delta_net(const DeltaNet& part, const Where& where, RowInfos rows, const float* x, float* y);
  void project_delta(const DeltaNet& part, const Where& where, RowInfos rows, const float* x);
  void dense(const DenseFfn& part, const Where& where, RowInfos rows, const float* x, float* y);
  void moe(const MoeFfn& part, const Where& where, RowInfos rows, const float* x, float* y);
  void route(const MoeFfn& part, const Where& where, RowInfos rows, const float* x);
  void one_row_of_experts(const MoeFfn& part, const Where& where, const RowInfo& row, const float* x);
  void grouped_experts(const MoeFfn& part, const Where& where, RowInfos rows, const float* x);
  void activate(float* gate, const float* up, uint64_t n) const noexcept;

  const Model& model_;
  ThreadPool& pool_;
  kernels::Mode mode_;
  kernels::Workspace workspace_;
  std::vector<kernels::RopeTable> ropes_;
  std::vector<const Binding*> bindings_;
  uint64_t hidden_;
  double eps_;
  bool one_plus_;

  // Scratch, by the part that uses it.
  std::vector<float> x_, y_, open_h_;
  std::vector<RowInfo> open_rows_;
  std::vector<kernels::Product> products_;
  std::vector<Projection> together_;
  std::vector<uint32_t> class_, member_;
  std::vector<float> gathered_, product_;
  std::vector<float> q_, q_raw_, k_, v_, head_gate_, heads_out_;
  std::vector<kernels::AttentionRow> attention_rows_;
  std::vector<float> u_, z_, b_, a_, fused_, fused_ba_, conv_, dq_, dk_, dv_, core_;
  std::vector<float> gate_, up_;
  std::vector<float> router_, choice_scratch_, weights_, expert_x_, expert_y_, results_, shared_, shared_gate_;
  std::vector<uint32_t> chosen_, chosen_count_, pairs_, first_pair_, next_pair_;
  std::vector<RowInfo> expert_rows_;
  std::vector<float> mtp_in_;
};

}  // namespace cortiq::engine
