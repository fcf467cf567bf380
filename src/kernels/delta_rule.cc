#include "kernels/delta_rule.h"

#include <algorithm>
#include <atomic>

#include "kernels/delta_kernels.h"

namespace cortiq::kernels {

static_assert(kDeltaChunk == kDeltaRows);

const DeltaKernels& delta_kernels(Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa >= Isa::Avx512) return delta_avx512();
  if (isa >= Isa::Avx2) return delta_avx2();
#elif defined(__aarch64__)
  if (isa == Isa::Neon) return delta_neon();
#endif
  (void)isa;
  return delta_scalar();
}

void delta_rule(DeltaState& state, uint64_t n, const float* q, const float* k, const float* v, const float* g,
                const float* beta, float* o, Workspace& workspace, ThreadPool& pool) {
  delta_rule(state, n, q, k, v, g, beta, o, delta_kernels(active_isa()), workspace.scratch(), pool);
}

void delta_rule(DeltaState& state, uint64_t n, const float* q, const float* k, const float* v, const float* g,
                const float* beta, float* o, const DeltaKernels& kernels, Scratch& scratch, ThreadPool& pool) {
  const uint64_t group = state.v_heads / state.k_heads, dk = state.dk, dv = state.dv;
  const uint64_t work = padded_to_lanes(delta_work(dk, dv));
  const uint64_t lanes = std::min<uint64_t>(pool.threads(), state.k_heads);
  float* memory = scratch.floats(lanes * work);

  // A key head and its value heads depend on no other: each walks through all chunks on its own. One loop index a
  // thread, so that each has its own working memory.
  std::atomic<uint64_t> taken{0};
  pool.run(lanes, [&](size_t lane) {
    DeltaTask task;
    task.heads = group;
    task.dk = dk;
    task.dv = dv;
    task.k_stride = state.k_heads * dk;
    task.v_stride = state.v_heads * dv;
    task.g_stride = state.v_heads;
    task.work = memory + lane * work;
    for (uint64_t head = taken.fetch_add(1, std::memory_order_relaxed); head < state.k_heads;
         head = taken.fetch_add(1, std::memory_order_relaxed)) {
      task.state = state.state + head * group * dk * dv;
      task.keys = state.k + head * kDeltaRows * dk;
      task.u = state.u + head * group * kDeltaRows * dv;
      task.decay = state.decay + head * group * kDeltaRows;
      task.pending = state.pending;
      for (uint64_t t = 0; t < n; t += task.rows) {
        task.rows = std::min(n - t, kDeltaRows - task.pending);
        task.q = q + t * task.k_stride + head * dk;
        task.k = k + t * task.k_stride + head * dk;
        task.v = v + t * task.v_stride + head * group * dv;
        task.o = o + t * task.v_stride + head * group * dv;
        task.g = g + t * task.g_stride + head * group;
        task.beta = beta + t * task.g_stride + head * group;
        kernels.advance(task);
        task.pending = (task.pending + task.rows) % kDeltaRows;
      }
    }
  });
  state.pending = static_cast<uint32_t>((state.pending + n) % kDeltaRows);
}

void causal_conv_silu(float* ring, const float* weight, uint32_t channels, uint32_t kernel, uint64_t n, const float* x,
                      float* y, ThreadPool& pool) {
  static const DeltaKernels& kernels = delta_kernels(active_isa());
  const uint64_t share = std::max<uint64_t>(256, padded_to_lanes(channels / (4 * pool.threads())));
  pool.run((channels + share - 1) / share, [&](size_t i) {
    kernels.convolve(ring, weight, channels, kernel, i * share, std::min<uint64_t>(channels, (i + 1) * share), n, x, y);
  });
}

}  // namespace cortiq::kernels
