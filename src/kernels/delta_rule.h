#pragma once
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/matmul.h"

namespace cortiq::kernels {

/// The recurrent state of one gated-delta-net layer of one sequence (ENGINE_FACTS §8, decisions 5): S at the last
/// border (a multiple of 64 positions) and what the rows since then add to it, all f32. Every output is computed from
/// these in one order, whatever the batch: prefill, decoding and verification agree bit for bit, and a rollback within
/// the chunk only lowers `pending`. A call with pending + n ≥ 64 passes a border and folds its rows into S; who may
/// have to roll back behind it copies the arrays first.
///
/// Memory is the caller's; a new sequence starts with state zero and pending 0, the other arrays need no values.
struct DeltaState {
  float* state = nullptr;  ///< S [v_heads][dk][dv] at the border
  float* k = nullptr;      ///< [k_heads][64][dk], keys of the pending rows
  float* u = nullptr;      ///< [v_heads][64][dv], what each pending row adds: S_t = Σ_j k_j·u_jᵀ + the decayed S
  float* decay = nullptr;  ///< [v_heads][64], log decay from the border up to and with the row
  uint32_t k_heads = 0, v_heads = 0, dk = 0, dv = 0;
  uint32_t pending = 0;  ///< rows since the border, < 64 between calls
};
inline constexpr uint32_t kDeltaChunk = 64;

/// Appends n rows and writes their outputs o [n][v_heads·dv]. q (l2-normalised and scaled) and k (normalised)
/// [n][k_heads·dk], v [n][v_heads·dv], g (log decay, ≤ 0) and beta [n][v_heads]. Borders that are passed are folded
/// into the state.
void delta_rule(DeltaState& state, uint64_t n, const float* q, const float* k, const float* v, const float* g,
                const float* beta, float* o, Workspace& workspace, ThreadPool& pool);

struct DeltaKernels;
/// The same with the kernels of a given instruction set.
void delta_rule(DeltaState& state, uint64_t n, const float* q, const float* k, const float* v, const float* g,
                const float* beta, float* o, const DeltaKernels& kernels, Scratch& scratch, ThreadPool& pool);

/// Causal depthwise convolution with SiLU over `channels` (ENGINE_FACTS §8 step 2): ring holds the last kernel−1 raw
/// inputs, oldest first, and is updated. weight [channels][kernel].
void causal_conv_silu(float* ring, const float* weight, uint32_t channels, uint32_t kernel, uint64_t n, const float* x,
                      float* y, ThreadPool& pool);

}  // namespace cortiq::kernels
