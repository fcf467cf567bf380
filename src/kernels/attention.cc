#include "kernels/attention.h"

#include <algorithm>
#include <atomic>

#include "kernels/attention_kernels.h"

namespace cortiq::kernels {
namespace {

// Rows of one sequence that stand beside each other and the heads of one kv head's group: what one task computes.
struct Piece {
  uint64_t row, rows;
  uint32_t kv_head, head, heads;  // query heads [head, head + heads)
  uint64_t segment_begin, segment_end;
};

uint64_t first_seen(const AttentionRow& row) noexcept {
  return row.window == 0 || row.window > row.position ? 0 : row.position + 1 - row.window;
}

// One call of attention(): its pieces and how their results come together.
class Work {
 public:
  Work(std::span<const AttentionRow> rows, float scale, float soft_cap, const AttentionKernels& kernels)
      : rows_(rows), scale_(scale), soft_cap_(soft_cap), kernels_(kernels) {}

  // Calls visit(piece) for every piece, in one order.
  template <class Visit>
  void each_piece(Visit visit) const {
    for (uint64_t r = 0; r < rows_.size();) {
      const AttentionRow& row = rows_[r];
      const uint32_t group = row.heads / row.kv.kv_heads;
      const uint64_t most = std::max<uint64_t>(1, kAttentionQueries / group);
      uint64_t n = 1;
      while (n < most && r + n < rows_.size() && same_cache(row, rows_[r + n])) ++n;
      Piece piece{r, n, 0, 0, 0, ~uint64_t{0}, 0};
      for (uint64_t i = r; i < r + n; ++i) {
        piece.segment_begin = std::min(piece.segment_begin, first_seen(rows_[i]) / kAttentionSegment);
        piece.segment_end = std::max(piece.segment_end, rows_[i].position / kAttentionSegment + 1);
      }
      for (piece.kv_head = 0; piece.kv_head < row.kv.kv_heads; ++piece.kv_head) {
        for (uint32_t h = 0; h < group; h += kAttentionQueries) {
          piece.head = piece.kv_head * group + h;
          piece.heads = std::min(kAttentionQueries, group - h);
          visit(piece);
        }
      }
      r += n;
    }
  }

  uint32_t queries(const Piece& piece, AttentionQuery* out) const noexcept {
    uint32_t count = 0;
    for (uint64_t r = piece.row; r < piece.row + piece.rows; ++r) {
      const AttentionRow& row = rows_[r];
      for (uint32_t h = piece.head; h < piece.head + piece.heads; ++h) {
        if (row.head_alive != nullptr && row.head_alive[h] == 0) continue;
        const uint64_t at = uint64_t{h} * row.kv.head_dim;
        out[count++] = {row.q + at, row.out + at, first_seen(row), row.position};
      }
    }
    return count;
  }

  void attend(const Piece& piece, float* work, float* partial) const noexcept {
    AttentionQuery list[kAttentionQueries];
    const KvView& kv = rows_[piece.row].kv;
    AttentionTask task;
    task.queries = list;
    task.count = queries(piece, list);
    if (task.count == 0) return;
    task.type = kv.type;
    task.kv_heads = kv.kv_heads;
    task.head_dim = kv.head_dim;
    task.kv_head = piece.kv_head;
    task.k_pages = kv.k_pages;
    task.v_pages = kv.v_pages;
    task.scale = scale_;
    task.soft_cap = soft_cap_;
    task.segment_begin = piece.segment_begin;
    task.segment_end = piece.segment_end;
    task.work = work;
    task.partial = partial;
    kernels_.attend(task);
  }

  // The partial results of a piece's segments [segment][query] become its outputs.
  void combine(const Piece& piece, float* partial) const noexcept {
    AttentionQuery list[kAttentionQueries];
    const uint64_t head_dim = rows_[piece.row].kv.head_dim, size = partial_floats(head_dim);
    const uint64_t stride = piece.rows * piece.heads * size;
    const uint32_t count = queries(piece, list);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t from = list[i].first / kAttentionSegment, to = list[i].last / kAttentionSegment + 1;
      kernels_.combine(partial + (from - piece.segment_begin) * stride + i * size, stride, to - from, head_dim,
                       list[i].out);
    }
  }

 private:
  static bool same_cache(const AttentionRow& a, const AttentionRow& b) noexcept {
    return a.kv.k_pages == b.kv.k_pages && a.kv.v_pages == b.kv.v_pages && a.kv.type == b.kv.type &&
           a.kv.kv_heads == b.kv.kv_heads && a.kv.head_dim == b.kv.head_dim && a.heads == b.heads;
  }

  std::span<const AttentionRow> rows_;
  float scale_, soft_cap_;
  const AttentionKernels& kernels_;
};

// What a thread takes from the common counter: a piece, or one segment of it.
struct Item {
  Piece piece;
  float* partial;
};

void clear_dead_heads(std::span<const AttentionRow> rows) noexcept {
  for (const AttentionRow& row : rows) {
    for (uint32_t h = 0; row.head_alive != nullptr && h < row.heads; ++h) {
      if (row.head_alive[h] == 0) std::fill_n(row.out + uint64_t{h} * row.kv.head_dim, row.kv.head_dim, 0.0f);
    }
  }
}

}  // namespace

const AttentionKernels& attention_kernels(Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa >= Isa::Avx512) return attention_avx512();
  if (isa >= Isa::Avx2) return attention_avx2();
#elif defined(__aarch64__)
  if (isa == Isa::Neon) return attention_neon();
#endif
  (void)isa;
  return attention_scalar();
}

uint64_t kv_page_bytes(KvType type, uint32_t kv_heads, uint32_t head_dim) noexcept {
  const uint64_t rows = uint64_t{kv_heads} * kKvPage, values = rows * head_dim;
  switch (type) {
    case KvType::F32:
      return values * 4;
    case KvType::F16:
      return values * 2;
    case KvType::Q8:
      break;
  }
  return values + rows * 4;
}

void store_keys(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, uint32_t count, const float* k,
                uint64_t stride, uint8_t* page) noexcept {
  attention_kernels(active_isa()).store_keys(type, kv_heads, head_dim, slot, count, k, stride, page);
}

void store_values(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, const float* v,
                  uint8_t* page) noexcept {
  attention_kernels(active_isa()).store_values(type, kv_heads, head_dim, slot, v, page);
}

void attention(std::span<const AttentionRow> rows, float scale, float soft_cap, Workspace& workspace,
               ThreadPool& pool) {
  attention(rows, scale, soft_cap, attention_kernels(active_isa()), workspace.scratch(), pool);
}

void attention(std::span<const AttentionRow> rows, float scale, float soft_cap, const AttentionKernels& kernels,
               Scratch& scratch, ThreadPool& pool) {
  if (rows.empty()) return;
  clear_dead_heads(rows);
  const Work work(rows, scale, soft_cap, kernels);
  uint64_t pieces = 0, segments = 0, partials = 0, work_floats = 0;
  work.each_piece([&](const Piece& piece) {
    const uint64_t head_dim = rows[piece.row].kv.head_dim, count = piece.segment_end - piece.segment_begin;
    ++pieces;
    segments += count;
    partials += count * piece.rows * piece.heads * partial_floats(head_dim);
    work_floats = std::max(work_floats, attention_work(head_dim));
  });
  // Segments become items of their own only while there are too few pieces to share out; otherwise a piece walks
  // through its segments itself and needs no memory for them.
  const bool split = pool.threads() > 1 && pieces < 2 * pool.threads() && segments > pieces;
  const uint64_t count = split ? segments : pieces;
  const uint64_t lanes = std::min<uint64_t>(pool.threads(), count);
  const uint64_t item_floats = (count * sizeof(Item) / sizeof(float) + 15) / 16 * 16;
  float* memory = scratch.floats(item_floats + (split ? partials : 0) + lanes * work_floats);
  Item* items = reinterpret_cast<Item*>(memory);
  float* partial = memory + item_floats;
  float* own = partial + (split ? partials : 0);

  uint64_t filled = 0;
  float* next_partial = partial;
  work.each_piece([&](Piece piece) {
    if (!split) {
      items[filled++] = {piece, nullptr};
      return;
    }
    const uint64_t begin = piece.segment_begin, end = piece.segment_end;
    for (uint64_t s = begin; s < end; ++s) {
      piece.segment_begin = s;
      piece.segment_end = s + 1;
      items[filled++] = {piece, next_partial};
      next_partial += piece.rows * piece.heads * partial_floats(rows[piece.row].kv.head_dim);
    }
  });

  // One loop index a thread, so that each has its own working memory; the longest pieces, the last rows, come first.
  std::atomic<uint64_t> taken{0};
  pool.run(lanes, [&](size_t lane) {
    for (uint64_t i = taken.fetch_add(1, std::memory_order_relaxed); i < count;
         i = taken.fetch_add(1, std::memory_order_relaxed)) {
      const Item& item = items[count - 1 - i];
      work.attend(item.piece, own + lane * work_floats, item.partial);
    }
  });
  if (!split) return;
  work.each_piece([&](const Piece& piece) {
    work.combine(piece, partial);
    partial += (piece.segment_end - piece.segment_begin) * piece.rows * piece.heads *
               partial_floats(rows[piece.row].kv.head_dim);
  });
}

}  // namespace cortiq::kernels
