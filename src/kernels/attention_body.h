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

// Calls f<Value>() for the type of a cache's elements.
template <class F>
void for_type(KvType type, F f) noexcept {
  switch (type) {
    case KvType::F32:
      return f.template operator()<float>();
    case KvType::F16:
      return f.template operator()<uint16_t>();
    case KvType::Q8:
      return f.template operator()<int8_t>();
  }
}

// Keys and values of the head of a task in one page: K [4][head_dim][16 positions], V [64][head_dim], and the scales of
// its positions (Q8).
template <class Value>
struct Head {
  const Value* at;
  const float* scales;
};
template <class Value>
Head<Value> head_of(const AttentionTask& task, const uint8_t* page) noexcept {
  const uint64_t first_row = uint64_t{task.kv_head} * kKvPage, n = task.head_dim;
  return {reinterpret_cast<const Value*>(page) + first_row * n,
          reinterpret_cast<const float*>(page + uint64_t{task.kv_heads} * kKvPage * n) + first_row};
}

// The memory of the positions `span` of the task's head in a page: they lie together in K (in sixteens) and in V.
template <class Value>
Ahead ahead_in(const AttentionTask& task, const uint8_t* page, Span span) noexcept {
  if (span.from == span.to) return {};
  const uint64_t row = task.head_dim * sizeof(Value), from = span.from / 16 * 16;
  const auto* head = reinterpret_cast<const uint8_t*>(head_of<Value>(task, page).at);
  return {head + from * row, head + span.to * row};
}

// n values as f32, padded with zeros to a multiple of 16.
template <class Value>
void widen_row(const Value* x, uint64_t n, float* row) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(row + i, widen(x + i));
  if (i == n) return;
  Value last[16] = {};
  for (uint64_t k = i; k < n; ++k) last[k - i] = x[k];
  store(row + i, widen(last));
}

// Scores of R queries against C sixteens of positions.
template <int R, int C, class Value>
void score_tile(const float* q, uint64_t width, uint64_t n, const Value* keys, float* scores, Ahead& ahead) noexcept {
  Lanes acc[R][C];
  each_element<R, C>([&](int r, int c) { acc[r][c] = set(0.0f); });
  add_products<R, C>(
      q, width, n, [=](uint64_t d, uint64_t c) { return widen(keys + (c * n + d) * 16); }, ahead, acc);
  each_element<R, C>([&](int r, int c) { store(scores + static_cast<uint64_t>(r) * kKvPage + 16 * c, acc[r][c]); });
}
template <int R, int C, class Value>
void score_tiles(const float* q, uint64_t width, uint64_t n, const Value* keys, uint32_t sixteens, float* scores,
                 Ahead& ahead) noexcept {
  uint32_t i = 0;
  for (; i + C <= sixteens; i += C) score_tile<R, C>(q, width, n, keys + i * n * 16, scores + 16 * i, ahead);
  if constexpr (C > 1) {
    if (i < sixteens) {
      score_tiles<R, C / 2>(q, width, n, keys + i * n * 16, sixteens - i, scores + 16 * i, ahead);
    }
  }
}

// scores[i, j] = q[i]·k[j] for the positions that some query of a tile sees, in whole sixteens.
template <class Value>
void score(const float* q, const Span* spans, uint32_t count, uint64_t width, uint64_t n, const Value* keys,
           float* scores, Ahead& ahead) noexcept {
  each_tile(count, [&]<int R>(uint64_t i) {
    const Span seen = hull(spans + i, R);
    if (seen.from == seen.to) return;
    const uint32_t from = seen.from / 16, to = (seen.to + 15) / 16;
    score_tiles<R, smaller(4, kTileAccumulators / R)>(q + i * width, width, n, keys + from * 16 * n, to - from,
                                                      scores + i * kKvPage + 16 * from, ahead);
  });
}

// rows[i, j] *= factors[j] for the positions each query sees, in whole sixteens.
void multiply_rows(float* rows, const Span* spans, uint32_t count, const float* factors) noexcept {
  for (uint32_t i = 0; i < count; ++i, rows += kKvPage) {
    for (uint32_t j = spans[i].from / 16 * 16; j < spans[i].to; j += 16)
      store(rows + j, load(rows + j) * load(factors + j));
  }
}

// The running softmax of queries: maximum and Σ e^(score − maximum) so far.
struct Running {
  float top[kAttentionQueries], norm[kAttentionQueries];
};

// Working memory of a task: its queries, their unnormalised outputs, widened keys or values, scores [count][64].
struct Room {
  float *q, *o, *rows, *scores;
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

// Adds weight·value of a block to up to four queries that follow each other; value j lies at values + j·stride. What
// all of them see goes through one tile; what only some see, before or behind it, goes query by query, so each keeps
// its own ascending order.
template <class Value>
void add_values(const float* weights, const Span* spans, uint32_t count, const Value* values, uint64_t stride,
                uint64_t width, float* o, Ahead& ahead) noexcept {
  Span common{0, kKvPage};
  for (uint32_t i = 0; i < count; ++i) {
    if (spans[i].from > common.from) common.from = spans[i].from;
    if (spans[i].to < common.to) common.to = spans[i].to;
  }
  if (common.from >= common.to) common = {kKvPage, kKvPage};
  const auto add = [&](uint32_t i, uint32_t rows, uint32_t from, uint32_t to) {
    if (from >= to) return;
    accumulate(weights + i * kKvPage + from, kKvPage, rows, to - from, values + from * stride, stride, width,
               o + i * width, width, ahead);
  };
  for (uint32_t i = 0; i < count; ++i) add(i, 1, spans[i].from, spans[i].to < common.from ? spans[i].to : common.from);
  if (common.from == common.to) return;
  add(0, count, common.from, common.to);
  for (uint32_t i = 0; i < count; ++i) add(i, 1, common.to, spans[i].to);
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

// One block of positions: scores, weights, sum of values. So few queries that widening keys and values again for each
// tile of them costs less than writing them down read the cache directly.
template <class Value>
void attend_block(const AttentionTask& task, uint64_t block, Span next, const Span* spans, const Room& room,
                  Running& run) noexcept {
  constexpr uint32_t kDirect = 8;
  const uint64_t n = task.head_dim, width = padded_head(n);
  const uint32_t count = task.count;
  const Span seen = hull(spans, count);
  const bool direct = count <= kDirect && n == width;
  const Head<Value> keys = head_of<Value>(task, task.k_pages[block]),
                    values = head_of<Value>(task, task.v_pages[block]);

  Ahead ahead = ahead_in<Value>(task, task.v_pages[block], seen);
  if (direct) {
    score(room.q, spans, count, width, n, keys.at, room.scores, ahead);
  } else {
    const uint64_t end = (seen.to + 15) / 16 * 16 * n;
    for (uint64_t i = seen.from / 16 * 16 * n; i < end; i += 16) store(room.rows + i, widen(keys.at + i));
    score(room.q, spans, count, width, n, room.rows, room.scores, ahead);
  }
  if constexpr (sizeof(Value) == 1) multiply_rows(room.scores, spans, count, keys.scales);

  for (uint32_t i = 0; i < count; i += 16) {
    weigh(room.scores + i * kKvPage, spans + i, count - i < 16 ? count - i : 16, task.scale, task.soft_cap, run.top + i,
          run.norm + i, room.o + i * width, width);
  }

  if constexpr (sizeof(Value) == 1) multiply_rows(room.scores, spans, count, values.scales);
  if (!direct) {
    for (uint64_t j = seen.from; j < seen.to; ++j) widen_row(values.at + j * n, n, room.rows + j * width);
  }
  ahead = ahead_in<Value>(task, task.k_pages[next.from == next.to ? block : block + 1], next);
  const bool last_block = next.from == next.to;
  for (uint32_t i = 0; i < count; i += 4) {
    const uint32_t some = count - i < 4 ? count - i : 4;
    float* o = room.o + i * width;
    for (uint32_t k = i; last_block && k < i + some; ++k) {
      for (uint64_t d = 0; d < n; d += 16) __builtin_prefetch(task.queries[k].out + d, 1, 2);
    }
    if (direct) {
      add_values(room.scores + i * kKvPage, spans + i, some, values.at, n, width, o, ahead);
    } else {
      add_values(room.scores + i * kKvPage, spans + i, some, room.rows, width, width, o, ahead);
    }
  }
}

void attend_body(const AttentionTask& task) noexcept {
  const uint64_t width = padded_head(task.head_dim);
  const uint32_t count = task.count;
  Room room{};
  room.q = task.work;
  room.o = room.q + count * width;
  room.rows = room.o + count * width;
  room.scores = room.rows + kKvPage * width;
  float* total = room.scores + kAttentionQueries * kKvPage;
  Running all, run;
  Span spans[kAttentionQueries];
  bool begun[kAttentionQueries] = {};

  uint64_t first = ~uint64_t{0}, last = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (task.queries[i].first < first) first = task.queries[i].first;
    if (task.queries[i].last > last) last = task.queries[i].last;
    uint64_t d = 0;
    for (; d + 16 <= task.head_dim; d += 16) store(room.q + i * width + d, load(task.queries[i].q + d));
    if (d < width) store(room.q + i * width + d, load_part(task.queries[i].q + d, task.head_dim - d));
  }
  const bool alone = task.segment_begin + 1 == task.segment_end && task.partial == nullptr;
  for (uint64_t segment = task.segment_begin; segment < task.segment_end; ++segment) {
    for (uint32_t i = 0; i < count; ++i) {
      run.top[i] = -__builtin_inff();
      run.norm[i] = 0;
    }
    for (uint64_t d = 0; d < count * width; d += 16) store(room.o + d, set(0.0f));
    constexpr uint64_t kBlocks = kAttentionSegment / kKvPage;
    const uint64_t begin = first / kKvPage > segment * kBlocks ? first / kKvPage : segment * kBlocks;
    const uint64_t end = last / kKvPage < (segment + 1) * kBlocks ? last / kKvPage + 1 : (segment + 1) * kBlocks;
    for (uint64_t b = begin; b < end; ++b) {
      for (uint32_t i = 0; i < count; ++i) spans[i] = visible(task.queries[i], b);
      if (hull(spans, count).to == 0) continue;
      const uint64_t start = (b + 1) * kKvPage;
      const uint64_t left = last + 1 > start ? last + 1 - start : 0;
      const Span next{0, static_cast<uint32_t>(left < kKvPage ? left : kKvPage)};
      for_type(task.type, [&]<class Value>() { attend_block<Value>(task, b, next, spans, room, run); });
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (alone) {
        finish(run.norm[i], room.o + i * width, task.head_dim, task.queries[i].out);
      } else if (task.partial != nullptr) {
        float* partial = task.partial + i * partial_floats(task.head_dim);
        copy(room.o + i * width, width, partial);
        partial[width] = run.top[i];
        partial[width + 1] = run.norm[i];
      } else if (run.norm[i] == 0) {
        continue;  // sees nothing in this segment
      } else if (!begun[i]) {
        copy(room.o + i * width, width, total + i * width);
        all.top[i] = run.top[i];
        all.norm[i] = run.norm[i];
        begun[i] = true;
      } else {
        merge(all.top[i], all.norm[i], total + i * width, run.top[i], run.norm[i], room.o + i * width, width);
      }
    }
  }
  if (alone || task.partial != nullptr) return;
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

// The scale of int8 codes of a head, the arithmetic of decisions 2: a value that is not finite makes it NaN.
struct Q8Scale {
  float scale, inverse;  ///< inverse 0: all codes are 0
};
Q8Scale q8_scale(const float* x, uint64_t n) noexcept {
  Lanes most = set(0.0f), broken = set(0.0f);
  for (uint64_t i = 0; i < n; i += 16) {
    const Lanes value = load_part(x + i, n - i < 16 ? n - i : 16);
    most = max(abs(value), most);
    broken = broken + (value - value);  // 0, or NaN
  }
  const float top = largest(most);
  if (sum(broken) != 0) return {__builtin_nanf(""), 0};
  if (top < 0x1p-100f) return {0, 0};
  return {top / 127.0f, 127.0f / top};
}

// Sixteen values as the cache holds them; `inverse` is that of their head (Q8).
inline void narrow(float* to, Lanes x, float) noexcept { store(to, x); }
inline void narrow(uint16_t* to, Lanes x, float) noexcept { store_half(to, x); }
inline void narrow(int8_t* to, Lanes x, float inverse) noexcept {
  const Lanes shift = set(0x1.8p23f);
  const Lanes scaled =
      inverse == 0 ? set(0.0f) : x * set(inverse);  // |scaled| ≤ 127: rounds to the nearest even integer
  store_codes(to, bits(scaled + shift) - bits(shift));
}

template <class Value>
float inverse_of(const float* x, uint64_t n, float* scale) noexcept {
  if constexpr (sizeof(Value) > 1) return 1;
  const Q8Scale q8 = q8_scale(x, n);
  *scale = q8.scale;
  return q8.inverse;
}

template <class Value>
void store_values(uint64_t kv_heads, uint64_t n, uint64_t slot, const float* v, uint8_t* page) noexcept {
  auto* scales = reinterpret_cast<float*>(page + kv_heads * kKvPage * n);
  for (uint64_t row = slot; row < kv_heads * kKvPage; row += kKvPage, v += n) {
    Value* to = reinterpret_cast<Value*>(page) + row * n;
    const float inverse = inverse_of<Value>(v, n, scales + row);
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) narrow(to + i, load(v + i), inverse);
    if (i == n) continue;
    Value last[16];
    narrow(last, load_part(v + i, n - i), inverse);
    for (uint64_t k = i; k < n; ++k) to[k] = last[k - i];
  }
}

// Positions slot … slot+count−1 of one sixteen; the elements of a head that lie side by side come together here, since
// storing position by position would touch every line of the page for each.
template <class Value>
void store_keys(uint64_t kv_heads, uint64_t n, uint64_t slot, uint64_t count, const float* k, uint64_t stride,
                uint8_t* page) noexcept {
  auto* scales = reinterpret_cast<float*>(page + kv_heads * kKvPage * n);
  const uint64_t lane = slot % 16;
  for (uint64_t row = slot; row < kv_heads * kKvPage; row += kKvPage, k += n) {
    Value* to = reinterpret_cast<Value*>(page) + (row - lane) * n;
    float inverse[16];
    for (uint64_t j = 0; j < count; ++j) inverse[j] = inverse_of<Value>(k + j * stride, n, scales + row + j);
    for (uint64_t i = 0; i < n; i += 16) {
      const uint64_t m = n - i < 16 ? n - i : 16;
      Value turned[16][16];
      for (uint64_t j = 0; j < count; ++j) {
        Value part[16];
        narrow(part, load_part(k + j * stride + i, m), inverse[j]);
        if (count == 16) {
          for (uint64_t e = 0; e < 16; ++e) turned[e][j] = part[e];
        } else {
          for (uint64_t e = 0; e < m; ++e) to[(i + e) * 16 + lane + j] = part[e];
        }
      }
      if (count < 16) continue;
      for (uint64_t e = 0; e < m; ++e) __builtin_memcpy(to + (i + e) * 16, turned[e], sizeof turned[e]);
    }
  }
}

void store_keys_body(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, uint32_t count, const float* k,
                     uint64_t stride, uint8_t* page) noexcept {
  for_type(type, [=]<class Value>() { store_keys<Value>(kv_heads, head_dim, slot, count, k, stride, page); });
}
void store_values_body(KvType type, uint32_t kv_heads, uint32_t head_dim, uint32_t slot, const float* v,
                       uint8_t* page) noexcept {
  for_type(type, [=]<class Value>() { store_values<Value>(kv_heads, head_dim, slot, v, page); });
}

constexpr AttentionKernels kAttention = {
    .attend = attend_body, .combine = combine_body, .store_keys = store_keys_body, .store_values = store_values_body};

}  // namespace
}  // namespace cortiq::kernels
