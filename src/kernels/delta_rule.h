#pragma once
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/matmul.h"

namespace cortiq::kernels {

/// The recurrent state of one gated-delta-net layer of one sequence (ENGINE_FACTS §8, decisions 5): S at the last border
/// (a multiple of 64 positions) and the rows since then, all f32. Every output is computed from these in one order,
/// whatever the batch: prefill, decoding and verification agree bit for bit, and a rollback within the chunk only
/// drops rows.
///
/// Memory is the caller's: state [v_heads][dk][dv]; pending q, k [64][k_heads·dk], v [64][v_heads·dv], g, beta
/// [64][v_heads].
struct DeltaState {
  float* state = nullptr;
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* g = nullptr;
  float* beta = nullptr;
  uint32_t k_heads = 0, v_heads = 0, dk = 0, dv = 0;
  uint32_t pending = 0;  ///< rows since the border, < 64 between calls
};

/// Appends n rows (q already l2-normalised and scaled, k normalised; g = log decay, beta as given) and writes their
/// outputs o [n][v_heads·dv]. Borders that are passed are folded into the state.
void delta_rule(DeltaState& state, uint64_t n, const float* q, const float* k, const float* v, const float* g,
                const float* beta, float* o, Workspace& workspace, ThreadPool& pool);

/// Causal depthwise convolution with SiLU over `channels` (ENGINE_FACTS §8 step 2): ring holds the last kernel−1 raw
/// inputs, oldest first, and is updated. weight [channels][kernel].
void causal_conv_silu(float* ring, const float* weight, uint32_t channels, uint32_t kernel, uint64_t n, const float* x,
                      float* y, ThreadPool& pool);

}  // namespace cortiq::kernels
