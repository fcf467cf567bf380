#pragma once
#include "kernels/attention_kernels.h"
#include "kernels/functions_body.h"
#include "kernels/tiles_body.h"

// Attention over Lanes (docs/numerics.md, "Attention"); compiled once per instruction set.
namespace cortiq::kernels {
namespace {

// The positions of a block that a query sees, counted from the block's start.
struct Span {
  uint32_t from, to;
};

inline Span visible(const AttentionQuery& query, uint64_t block) noexcept {
  const uint64_t start = block * kKvPage;
  const uint64_t from = query.first > start ? query.first - start : 0;
  const uint64_t to =
      query.last + 1 < start + kKvPage ? (query.last + 1 > start ? query.last + 1 - start : 0) : kKvPage;
  return from < to ? Span{static_cast<uint32_t>(from), static_cast<uint32_t>(to)} : Span{0, 0};
}

// The union of spans; empty ones do not count.
inline Span hull(const Span* spans, uint32_t count) noexcept {
  Span all{kKvPage, 0};
  for (uint32_t i = 0; i < count; ++i) {
    if (spans[i].from == spans[i].to) continue;
    if (spans[i].from < all.from) all.from = spans[i].from;
    if (spans[i].to > all.to) all.to = spans[i].to;
  }
  return all.from < all.to ? all : Span{0, 0};
}

inline void load_row(const float* x, uint64_t n, float, float* row) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(row + i, load(x + i));
  if (i < n) store(row + i, load_part(x + i, n - i));
}
inline void load_row(const uint16_t* x, uint64_t n, float, float* row) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(row + i, load_half(x + i));
  if (i == n) return;
  uint16_t last[16] = {};
  for (uint64_t k = i; k < n; ++k) last[k - i] = x[k];
  store(row + i, load_half(last));
}
inline void load_row(const int8_t* x, uint64_t n, float scale, float* row) noexcept {
  const Lanes factor = set(scale);
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(row + i, load_codes(x + i) * factor);
  if (i == n) return;
  int8_t last[16] = {};
  for (uint64_t k = i; k < n; ++k) last[k - i] = x[k];
  store(row + i, select(range(0, static_cast<int>(n - i)), load_codes(last) * factor, set(0.0f)));
}

// A page of keys or values and the row in it with which reading goes on.
struct Place {
  const uint8_t* page;
  uint64_t row;
};

// Rows from … to of one head of a page as f32, each padded with zeros to `width`. As many rows from `ahead` on (page
// nullptr: none) are asked for meanwhile, so that memory works while the rows are used.
template <class Value>
void load_page(const AttentionTask& task, const uint8_t* page, Span span, Place ahead, float* rows,
               uint64_t width) noexcept {
  const uint64_t n = task.head_dim, first_row = uint64_t{task.kv_head} * kKvPage, bytes = n * sizeof(Value);
  const auto* scales = reinterpret_cast<const float*>(page + uint64_t{task.kv_heads} * kKvPage * n);
  const uint8_t* next = ahead.page + (first_row + ahead.row) * bytes;
  for (uint64_t j = span.from; j < span.to; ++j, next += bytes) {
    if (ahead.page != nullptr) {
      for (uint64_t line = 0; line < bytes; line += 64) __builtin_prefetch(next + line, 0, 2);
    }
    const float scale = sizeof(Value) == 1 ? scales[first_row + j] : 1.0f;
    load_row(reinterpret_cast<const Value*>(page + (first_row + j) * bytes), n, scale, rows + j * width);
  }
}
void load_rows(const AttentionTask& task, const uint8_t* page, Span span, Place ahead, float* rows,
               uint64_t width) noexcept {
  switch (task.type) {
    case KvType::F32:
      return load_page<float>(task, page, span, ahead, rows, width);
    case KvType::F16:
      return load_page<uint16_t>(task, page, span, ahead, rows, width);
    case KvType::Q8:
      return load_page<int8_t>(task, page, span, ahead, rows, width);
  }
}

// Calls use(part, ahead) for the parts of a block in which its rows are loaded and used in turn. Few queries take 16
// rows at a time: they have little to compute, which must not wait for memory nor memory for it.
template <class Use>
inline void each_part(Span seen, uint32_t queries, const uint8_t* page, const uint8_t* next_page, uint64_t next_row,
                      Use use) noexcept {
  const uint32_t step = queries < 16 ? 16 : kKvPage;
  for (uint32_t from = seen.from; from < seen.to;) {
    const uint32_t end = (from / step + 1) * step, to = end < seen.to ? end : seen.to;
    use(Span{from, to}, to < seen.to ? Place{page, to} : Place{next_page, next_row});
    from = to;
  }
}

inline Span overlap(Span a, Span b) noexcept {
  const Span both{a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to};
  return both.from < both.to ? both : Span{0, 0};
}

// The running softmax of queries: maximum and Σ e^(score − maximum) so far.
struct Running {
  float top[kAttentionQueries], norm[kAttentionQueries];
};

// scores[i] become scaled, capped, and −∞ outside the span; returns their largest.
inline float prepare_scores(float* scores, Span span, float scale, float soft_cap) noexcept {
  const Lanes lowest = set(-__builtin_inff());
  Lanes top = lowest;
  for (uint32_t j = span.from / 16 * 16; j < span.to; j += 16) {
    Lanes s = load(scores + j) * set(scale);
    if (soft_cap != 0) s = capped(s, soft_cap);
    if (j < span.from || j + 16 > span.to) {
      const int from = span.from > j ? static_cast<int>(span.from - j) : 0;
      const int to = span.to < j + 16 ? static_cast<int>(span.to - j) : 16;
      s = select(range(from, to), s, lowest);
    }
    store(scores + j, s);
    top = max(s, top);
  }
  return largest(top);
}

// Scores of one block become weights e^(score − new maximum); what was summed before is scaled to the new maximum. Up
// to sixteen queries at once share the reductions, which is all that makes this more than a loop over queries.
void weigh(float* scores, const Span* spans, uint32_t count, float scale, float soft_cap, float* top, float* norm,
           float* o, uint64_t width) noexcept {
  float next[16], correction[16], after[16];
  Lanes totals[16];
  for (Lanes& total : totals) total = set(0.0f);
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = top[i];
    if (spans[i].from == spans[i].to) continue;
    const float most = prepare_scores(scores + i * kKvPage, spans[i], scale, soft_cap);
    next[i] = most > top[i] ? most : top[i];
  }
  const Lanes factor = exp(load_part(top, count) - load_part(next, count));
  store(correction, factor);
  for (uint32_t i = 0; i < count; ++i) {
    if (spans[i].from == spans[i].to) continue;
    float* row = scores + i * kKvPage;
    const Lanes shift = set(next[i]);
    for (uint32_t j = spans[i].from / 16 * 16; j < spans[i].to; j += 16) {
      const Lanes weight = exp(load(row + j) - shift);
      store(row + j, weight);
      totals[i] = totals[i] + weight;
    }
    if (next[i] == top[i]) continue;
    const Lanes scaled = set(correction[i]);
    for (uint64_t d = i * width; d < (i + 1) * width; d += 16) store(o + d, load(o + d) * scaled);
  }
  store(after, fma(load_part(norm, count), factor, sums(totals)));
  for (uint32_t i = 0; i < count; ++i) {
    if (spans[i].from == spans[i].to) continue;
    top[i] = next[i];
    norm[i] = after[i];
  }
}

// Adds weight·value of a block to up to four queries that follow each other. What all of them see goes through one
// tile; what only some see, before or behind it, goes query by query, so each keeps its own ascending order.
void add_values(const float* weights, const Span* spans, uint32_t count, const float* values, uint64_t width,
                float* o) noexcept {
  Span common{0, kKvPage};
  for (uint32_t i = 0; i < count; ++i) {
    if (spans[i].from > common.from) common.from = spans[i].from;
    if (spans[i].to < common.to) common.to = spans[i].to;
  }
  if (common.from >= common.to) common = {kKvPage, kKvPage};
  const auto alone = [&](uint32_t i, uint32_t from, uint32_t to) {
    if (from >= to) return;
    accumulate(weights + i * kKvPage + from, kKvPage, 1, to - from, values + from * width, width, width, o + i * width,
               width);
  };
  for (uint32_t i = 0; i < count; ++i) {
    alone(i, spans[i].from, spans[i].to < common.from ? spans[i].to : common.from);
  }
  if (common.from == common.to) return;
  accumulate(weights + common.from, kKvPage, count, common.to - common.from, values + common.from * width, width, width,
             o, width);
  for (uint32_t i = 0; i < count; ++i) alone(i, common.to, spans[i].to);
}

// (all_top, all_norm, total) ← itself combined with one more segment (top, norm, o).
void merge(float& all_top, float& all_norm, float* total, float top, float norm, const float* o,
           uint64_t width) noexcept {
  const float most = top > all_top ? top : all_top;
  const Lanes a = exp(set(all_top) - set(most)), b = exp(set(top) - set(most));
  all_top = most;
  all_norm = first_lane(fma(set(all_norm), a, set(norm) * b));
  for (uint64_t d = 0; d < width; d += 16) store(total + d, fma(load(total + d), a, load(o + d) * b));
}

void copy(const float* from, uint64_t n, float* to) noexcept {
  for (uint64_t d = 0; d < n; d += 16) store(to + d, load(from + d));
}

void finish(float norm, const float* total, uint64_t head_dim, float* out) noexcept {
  const Lanes inverse = set(1.0f / norm);
  uint64_t d = 0;
  for (; d + 16 <= head_dim; d += 16) store(out + d, load(total + d) * inverse);
  if (d < head_dim) store_part(out + d, load(total + d) * inverse, head_dim - d);
}

void attend_body(const AttentionTask& task) noexcept {
  const uint64_t width = padded_head(task.head_dim);
  const uint32_t count = task.count;
  float* q = task.work;
  float* o = q + count * width;
  float* total = o + count * width;
  float* rows = total + count * width;
  float* scores = rows + kKvPage * width;
  Running all, run;
  Span spans[kAttentionQueries];
  bool begun[kAttentionQueries] = {};

  uint64_t first = ~uint64_t{0}, last = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (task.queries[i].first < first) first = task.queries[i].first;
    if (task.queries[i].last > last) last = task.queries[i].last;
    uint64_t d = 0;
    for (; d + 16 <= task.head_dim; d += 16) store(q + i * width + d, load(task.queries[i].q + d));
    if (d < width) store(q + i * width + d, load_part(task.queries[i].q + d, task.head_dim - d));
  }
  for (uint64_t segment = task.segment_begin; segment < task.segment_end; ++segment) {
    for (uint32_t i = 0; i < count; ++i) {
      run.top[i] = -__builtin_inff();
      run.norm[i] = 0;
    }
    for (uint64_t d = 0; d < count * width; d += 16) store(o + d, set(0.0f));
    constexpr uint64_t kBlocks = kAttentionSegment / kKvPage;
    const uint64_t begin = first / kKvPage > segment * kBlocks ? first / kKvPage : segment * kBlocks;
    const uint64_t end = last / kKvPage < (segment + 1) * kBlocks ? last / kKvPage + 1 : (segment + 1) * kBlocks;
    for (uint64_t b = begin; b < end; ++b) {
      for (uint32_t i = 0; i < count; ++i) spans[i] = visible(task.queries[i], b);
      const Span seen = hull(spans, count);
      if (seen.from == seen.to) continue;
      each_part(seen, count, task.k_pages[b], task.v_pages[b], seen.from, [&](Span part, Place ahead) {
        load_rows(task, task.k_pages[b], part, ahead, rows, width);
        for (uint32_t i = 0; i < count; i += 4) {
          const uint32_t n = count - i < 4 ? count - i : 4;
          const Span keys = overlap(hull(spans + i, n), part);
          dots(q + i * width, width, n, rows, width, keys.from / 16 * 16, (keys.to + 15) / 16 * 16, width,
               scores + i * kKvPage, kKvPage);
        }
      });
      for (uint32_t i = 0; i < count; i += 16) {
        weigh(scores + i * kKvPage, spans + i, count - i < 16 ? count - i : 16, task.scale, task.soft_cap, run.top + i,
              run.norm + i, o + i * width, width);
      }
      const uint8_t* next_keys = (b + 1) * kKvPage <= last ? task.k_pages[b + 1] : nullptr;
      each_part(seen, count, task.v_pages[b], next_keys, 0, [&](Span part, Place ahead) {
        load_rows(task, task.v_pages[b], part, ahead, rows, width);
        for (uint32_t i = 0; i < count; i += 4) {
          const uint32_t n = count - i < 4 ? count - i : 4;
          Span of_part[4];
          for (uint32_t k = 0; k < n; ++k) of_part[k] = overlap(spans[i + k], part);
          add_values(scores + i * kKvPage, of_part, n, rows, width, o + i * width);
        }
      });
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (task.partial != nullptr) {
        float* partial = task.partial + i * partial_floats(task.head_dim);
        copy(o + i * width, width, partial);
        partial[width] = run.top[i];
        partial[width + 1] = run.norm[i];
      } else if (run.norm[i] == 0) {
        continue;  // sees nothing in this segment
      } else if (!begun[i]) {
        copy(o + i * width, width, total + i * width);
        all.top[i] = run.top[i];
        all.norm[i] = run.norm[i];
        begun[i] = true;
      } else {
        merge(all.top[i], all.norm[i], total + i * width, run.top[i], run.norm[i], o + i * width, width);
      }
    }
  }
  if (task.partial != nullptr) return;
  for (uint32_t i = 0; i < count; ++i) finish(all.norm[i], total + i * width, task.head_dim, task.queries[i].out);
}

void combine_body(float* partial, uint64_t stride, uint64_t count, uint64_t head_dim, float* out) noexcept {
  const uint64_t width = padded_head(head_dim);
  float top = partial[width], norm = partial[width + 1];
  for (uint64_t i = 1; i < count; ++i) {
    const float* next = partial + i * stride;
    merge(top, norm, partial, next[width], next[width + 1], next, width);
  }
  finish(norm, partial, head_dim, out);
}

// int8 codes with one scale for the head, the arithmetic of decisions 2: a value that is not finite makes the scale
// NaN.
float store_q8(const float* x, uint64_t n, int8_t* codes) noexcept {
  Lanes most = set(0.0f), broken = set(0.0f);
  for (uint64_t i = 0; i < n; i += 16) {
    const Lanes value = load_part(x + i, n - i < 16 ? n - i : 16);
    most = max(abs(value), most);
    broken = broken + (value - value);  // 0, or NaN
  }
  const float top = largest(most);
  const bool finite = sum(broken) == 0;
  const bool live = finite && top >= 0x1p-100f;
  const Lanes inverse = set(live ? 127.0f / top : 0.0f), shift = set(0x1.8p23f);
  for (uint64_t i = 0; i < n; i += 16) {
    const uint64_t m = n - i < 16 ? n - i : 16;
    int8_t block[16];
    const Lanes scaled = live ? load_part(x + i, m) * inverse : set(0.0f);
    store_codes(block, bits(scaled + shift) - bits(shift));  // |scaled| ≤ 127: rounds to the nearest even integer
    for (uint64_t k = 0; k < m; ++k) codes[i + k] = block[k];
  }
  return live ? top / 127.0f : (finite ? 0.0f : __builtin_nanf(""));
}

void store_kv_body(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, const float* x,
                   uint8_t* page) noexcept {
  const uint64_t n = head_dim;
  auto* scales = reinterpret_cast<float*>(page + uint64_t{kv_heads} * kKvPage * n);
  for (uint64_t h = 0; h < kv_heads; ++h, x += n) {
    const uint64_t row = h * kKvPage + slot, at = row * n;
    switch (type) {
      case KvType::F32:
        for (uint64_t i = 0; i < n; ++i) reinterpret_cast<float*>(page)[at + i] = x[i];
        break;
      case KvType::F16: {
        uint16_t* to = reinterpret_cast<uint16_t*>(page) + at;
        uint64_t i = 0;
        for (; i + 16 <= n; i += 16) store_half(to + i, load(x + i));
        if (i < n) {
          uint16_t last[16];
          store_half(last, load_part(x + i, n - i));
          for (uint64_t k = i; k < n; ++k) to[k] = last[k - i];
        }
        break;
      }
      case KvType::Q8:
        scales[row] = store_q8(x, n, reinterpret_cast<int8_t*>(page) + at);
        break;
    }
  }
}

constexpr AttentionKernels kAttention = {.attend = attend_body, .combine = combine_body, .store_kv = store_kv_body};

}  // namespace
}  // namespace cortiq::kernels
