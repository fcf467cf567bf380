#pragma once
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/kv_page.h"
#include "kernels/matmul.h"

namespace cortiq::kernels {

/// Keys and values of one sequence in one layer visit, in pages of 64 absolute positions: page b holds positions
/// 64·b … 64·b+63. V of a page lies as [kv_heads][64][head_dim] elements of the type, K as [kv_heads][4][head_dim][16]:
/// sixteen positions side by side, the lanes in which their scores are made. Q8: int8 plus one f32 scale per head and
/// position, [kv_heads][64] floats behind the codes. A page that a window has passed may be nullptr.
struct KvView {
  KvType type = KvType::F16;
  uint32_t kv_heads = 0, head_dim = 0;
  const uint8_t* const* k_pages = nullptr;
  const uint8_t* const* v_pages = nullptr;
};
uint64_t kv_page_bytes(KvType type, uint32_t kv_heads, uint32_t head_dim) noexcept;  ///< of K or of V

/// Stores keys k [count][kv_heads·head_dim], `stride` floats apart, of positions that follow each other in one sixteen
/// of a page (slot % 16 + count ≤ 16), rounded to the cache's type (decisions 4: f16 is IEEE, saturating).
void store_keys(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, uint32_t count, const float* k,
                uint64_t stride, uint8_t* page) noexcept;
/// Stores the values v [kv_heads·head_dim] of one position.
void store_values(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, const float* v,
                  uint8_t* page) noexcept;

/// One query row: all its heads at one position against one cache.
struct AttentionRow {
  const float* q = nullptr;  ///< [heads][head_dim], rotated
  float* out = nullptr;      ///< [heads][head_dim]
  KvView kv;
  uint64_t position = 0;  ///< sees keys first … position
  uint64_t window = 0;    ///< number of keys seen, itself included; 0: all
  uint32_t heads = 0;
  const uint8_t* head_alive = nullptr;  ///< [heads], 0: out is zero and nothing is computed; nullptr: all
};

/// Attention as decisions 4 defines it: blocks of 64 positions, online softmax, segments of 1,024 positions combined
/// ascending. Rows are independent; work is split over rows, kv groups and segments without changing a bit.
void attention(std::span<const AttentionRow> rows, float scale, float soft_cap /* 0: none */, Workspace& workspace,
               ThreadPool& pool);

struct AttentionKernels;
/// The same with the kernels of a given instruction set.
void attention(std::span<const AttentionRow> rows, float scale, float soft_cap, const AttentionKernels& kernels,
               Scratch& scratch, ThreadPool& pool);

}  // namespace cortiq::kernels
