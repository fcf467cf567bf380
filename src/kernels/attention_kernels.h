#pragma once
#include <cstdint>

#include "base/cpu.h"
#include "kernels/kv_page.h"

namespace cortiq::kernels {

/// One head at one position.
struct AttentionQuery {
  const float* q;        ///< [head_dim]
  float* out;            ///< [head_dim]
  uint64_t first, last;  ///< positions it sees, both included
};

inline constexpr uint32_t kAttentionQueries = 128;   ///< in a task at most: their rows and 64 keys stay in L2
inline constexpr uint64_t kAttentionSegment = 1024;  ///< positions (decisions 4)
inline constexpr uint64_t padded_head(uint64_t head_dim) noexcept { return (head_dim + 15) / 16 * 16; }

/// Queries that share the keys and values of one head of one sequence.
struct AttentionTask {
  const AttentionQuery* queries = nullptr;
  uint32_t count = 0;
  KvType type = KvType::F16;
  uint32_t kv_heads = 0, head_dim = 0, kv_head = 0;
  const uint8_t* const* k_pages = nullptr;
  const uint8_t* const* v_pages = nullptr;
  float scale = 1, soft_cap = 0;
  uint64_t segment_begin = 0, segment_end = 0;
  float* work = nullptr;     ///< attention_work(head_dim) floats
  float* partial = nullptr;  ///< if given (one segment): receives [count][partial_floats] instead of `out`
};

inline constexpr uint64_t attention_work(uint64_t head_dim) noexcept {
  return (3 * kAttentionQueries + kKvPage) * padded_head(head_dim) + kAttentionQueries * kKvPage;
}
/// Unnormalised output, maximum and sum of one query over one segment.
inline constexpr uint64_t partial_floats(uint64_t head_dim) noexcept { return padded_head(head_dim) + 16; }

/// One instruction set's versions; all are equal bit for bit.
struct AttentionKernels {
  void (*attend)(const AttentionTask& task);
  /// Combines `count` segments of one query (stride floats apart; the first is overwritten) into out.
  void (*combine)(float* partial, uint64_t stride, uint64_t count, uint64_t head_dim, float* out);
  /// store_keys and store_values of attention.h.
  void (*store_keys)(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, uint32_t count, const float* k,
                     uint64_t stride, uint8_t* page);
  void (*store_values)(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, const float* v, uint8_t* page);
};

const AttentionKernels& attention_scalar() noexcept;
const AttentionKernels& attention_avx2() noexcept;
const AttentionKernels& attention_avx512() noexcept;
const AttentionKernels& attention_neon() noexcept;
const AttentionKernels& attention_kernels(Isa isa) noexcept;

}  // namespace cortiq::kernels
