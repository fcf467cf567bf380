#pragma once
#include "kernels/delta_kernels.h"
#include "kernels/functions_body.h"
#include "kernels/tiles_body.h"

// The gated delta rule over Lanes (docs/numerics.md, "Delta rule"); compiled once per instruction set.
namespace cortiq::kernels {
namespace {

// Copies n values and pads with zeros up to a multiple of 16.
inline void copy_padded(const float* from, uint64_t n, float* to) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(to + i, load(from + i));
  if (i < n) store(to + i, load_part(from + i, n - i));
}
inline void copy_exact(const float* from, uint64_t n, float* to) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16) store(to + i, load(from + i));
  if (i < n) store_part(to + i, load_part(from + i, n - i), n - i);
}

// What the value heads of a task share, and the working memory.
struct Chunk {
  const DeltaTask& task;
  uint64_t wk, wv;  // widths padded to whole vectors
  uint64_t end;     // rows of the chunk when the new ones are in it
  float* x;         // [2·rows][wk]: the new keys, then the new queries
  float* keys;      // [64][wk]; the caller's array itself if no padding is needed, like u and state below
  float* turned;    // [wk][64]: keys transposed, filled when the chunk is folded
  float* products;  // [2·rows][64]: x·keys
  float* weights;   // [2·rows][64]: products with decay (and −β for the keys)
  float* y;         // [2·rows][wv]: x·S, then outputs
  float* u;         // [64][wv] of one value head
  float* scaled;    // [64][wv]
  float* state;     // [wk][wv] of one value head
};

Chunk layout(const DeltaTask& task) noexcept {
  const uint64_t wk = padded_to_lanes(task.dk), wv = padded_to_lanes(task.dv);
  Chunk c{task,    wk,      wv,     task.pending + task.rows, task.work, nullptr, nullptr, nullptr, nullptr, nullptr,
          nullptr, nullptr, nullptr};
  c.keys = c.x + 2 * kDeltaRows * wk;
  c.turned = c.keys + kDeltaRows * wk;
  c.products = c.turned + kDeltaRows * wk;
  c.weights = c.products + 2 * kDeltaRows * kDeltaRows;
  c.y = c.weights + 2 * kDeltaRows * kDeltaRows;
  c.u = c.y + 2 * kDeltaRows * wv;
  c.scaled = c.u + kDeltaRows * wv;
  c.state = c.scaled + kDeltaRows * wv;
  if (wk == task.dk) c.keys = task.keys;
  return c;
}

// Brings the keys and queries in place and multiplies each with the keys of its own row and those before.
void share(const Chunk& c) noexcept {
  const DeltaTask& t = c.task;
  for (uint64_t i = 0; i < t.rows; ++i) {
    copy_exact(t.k + i * t.k_stride, t.dk, t.keys + (t.pending + i) * t.dk);
    copy_padded(t.k + i * t.k_stride, t.dk, c.x + i * c.wk);
    copy_padded(t.q + i * t.k_stride, t.dk, c.x + (t.rows + i) * c.wk);
  }
  if (c.keys != t.keys) {
    for (uint64_t j = 0; j < c.end; ++j) copy_padded(t.keys + j * t.dk, t.dk, c.keys + j * c.wk);
  }
  if (t.rows <= 2) {
    dots(c.x, c.wk, 2 * t.rows, c.keys, c.wk, 0, padded_to_lanes(c.end), c.wk, c.products, kDeltaRows);
    return;
  }
  for (uint64_t i = 0; i < t.rows; i += 4) {
    const uint64_t n = t.rows - i < 4 ? t.rows - i : 4, to = padded_to_lanes(t.pending + i + n);
    for (const uint64_t row : {i, t.rows + i}) {
      dots(c.x + row * c.wk, c.wk, n, c.keys, c.wk, 0, to, c.wk, c.products + row * kDeltaRows, kDeltaRows);
    }
  }
}

// o[i] += Σ weight[i, j]·u[j] over j < first + i + last (ascending), for up to four rows of the chunk from `first` on:
// what all of them add goes through one tile.
void add_earlier(const Chunk& c, const float* weights, uint64_t first, uint64_t rows, uint64_t last,
                 float* o) noexcept {
  const uint64_t common = first + last;
  accumulate(weights, kDeltaRows, rows, common, c.u, c.wv, c.wv, o, c.wv);
  for (uint64_t i = 1; i < rows; ++i) {
    accumulate(weights + i * kDeltaRows + common, kDeltaRows, 1, i, c.u + common * c.wv, c.wv, c.wv, o + i * c.wv,
               c.wv);
  }
}

void fold(const Chunk& c, float* decay) noexcept {
  const float last = decay[kDeltaRows - 1];
  const Lanes all = exp(set(last));
  for (uint64_t i = 0; i < c.task.dk * c.wv; i += 16) store(c.state + i, load(c.state + i) * all);
  for (uint64_t j = 0; j < kDeltaRows; ++j) {
    const Lanes since = exp(set(last - decay[j]));
    for (uint64_t d = 0; d < c.wv; d += 16) store(c.scaled + j * c.wv + d, load(c.u + j * c.wv + d) * since);
  }
  accumulate(c.turned, kDeltaRows, c.task.dk, kDeltaRows, c.scaled, c.wv, c.wv, c.state, c.wv);
}

void value_head(Chunk c, uint64_t head) noexcept {
  const DeltaTask& t = c.task;
  const bool padded = c.wv != t.dv;
  float* stored_state = t.state + head * t.dk * t.dv;
  float* stored_u = t.u + head * kDeltaRows * t.dv;
  float* decay = t.decay + head * kDeltaRows;
  if (padded) {
    for (uint64_t r = 0; r < t.dk; ++r) copy_padded(stored_state + r * t.dv, t.dv, c.state + r * c.wv);
    for (uint64_t j = 0; j < t.pending; ++j) copy_padded(stored_u + j * t.dv, t.dv, c.u + j * c.wv);
  } else {
    c.state = stored_state;
    c.u = stored_u;
  }

  for (uint64_t i = 0; i < 2 * t.rows * c.wv; i += 16) store(c.y + i, set(0.0f));
  accumulate(c.x, c.wk, 2 * t.rows, t.dk, c.state, c.wv, c.wv, c.y, c.wv);

  for (uint64_t i = 0; i < t.rows; ++i) {
    const uint64_t row = t.pending + i;
    const float before = row == 0 ? 0.0f : decay[row - 1];
    decay[row] = before + t.g[i * t.g_stride + head];
    const Lanes now = set(decay[row]), beta = set(t.beta[i * t.g_stride + head]), minus_beta = set(0.0f) - beta;
    const Lanes since_border = exp(now);
    float* key_weights = c.weights + i * kDeltaRows;
    float* query_weights = c.weights + (t.rows + i) * kDeltaRows;
    const float* key_products = c.products + i * kDeltaRows;
    const float* query_products = c.products + (t.rows + i) * kDeltaRows;
    for (uint64_t j = 0; j <= row; j += 16) {
      const Lanes since = exp(now - load(decay + j));
      store(key_weights + j, load(key_products + j) * minus_beta * since);
      store(query_weights + j, load(query_products + j) * since);
    }
    const float* value = t.v + i * t.v_stride + head * t.dv;
    float* u = c.u + row * c.wv;
    float* key_y = c.y + i * c.wv;
    float* query_y = c.y + (t.rows + i) * c.wv;
    copy_padded(value, t.dv, u);
    for (uint64_t d = 0; d < c.wv; d += 16) {
      store(u + d, fnma(since_border, load(key_y + d), load(u + d)) * beta);
      store(query_y + d, load(query_y + d) * since_border);
    }
  }
  for (uint64_t i = 0; i < t.rows; i += 4) {
    const uint64_t n = t.rows - i < 4 ? t.rows - i : 4, row = t.pending + i;
    add_earlier(c, c.weights + i * kDeltaRows, row, n, 0, c.u + row * c.wv);
    add_earlier(c, c.weights + (t.rows + i) * kDeltaRows, row, n, 1, c.y + (t.rows + i) * c.wv);
  }
  for (uint64_t i = 0; i < t.rows; ++i) {
    copy_exact(c.y + (t.rows + i) * c.wv, t.dv, t.o + i * t.v_stride + head * t.dv);
  }
  if (c.end == kDeltaRows) fold(c, decay);
  if (padded) {
    for (uint64_t r = 0; r < t.dk; ++r) copy_exact(c.state + r * c.wv, t.dv, stored_state + r * t.dv);
    for (uint64_t j = t.pending; j < c.end; ++j) copy_exact(c.u + j * c.wv, t.dv, stored_u + j * t.dv);
  }
}

void advance_body(const DeltaTask& task) noexcept {
  const Chunk c = layout(task);
  share(c);
  if (c.end == kDeltaRows) {
    for (uint64_t i = 0; i < task.dk; ++i) {
      for (uint64_t j = 0; j < kDeltaRows; ++j) c.turned[i * kDeltaRows + j] = c.keys[j * c.wk + i];
    }
  }
  for (uint64_t head = 0; head < task.heads; ++head) value_head(c, head);
}

// Channels and taps of the convolution that are worked on together: their weights, transposed, stay in L1 while the
// rows stream past.
constexpr uint64_t kConvChannels = 256, kConvTaps = 8;

void convolve_body(float* ring, const float* weight, uint64_t channels, uint64_t kernel, uint64_t from, uint64_t to,
                   uint64_t n, const float* x, float* y) noexcept {
  const uint64_t past = kernel - 1;
  alignas(64) float taps[kConvTaps * kConvChannels];
  for (uint64_t begin = from; begin < to; begin += kConvChannels) {
    const uint64_t width = to - begin < kConvChannels ? to - begin : kConvChannels;
    const auto input = [&](uint64_t t) {  // row t counted from the ring's first
      return (t < past ? ring + t * channels : x + (t - past) * channels) + begin;
    };
    for (uint64_t first = 0; first < kernel; first += kConvTaps) {
      const uint64_t count = kernel - first < kConvTaps ? kernel - first : kConvTaps;
      const bool last = first + count == kernel;
      const float* weights = weight + begin * kernel + first;
      if (kernel == 4) {
        for (uint64_t c = 0; c < width; ++c) {  // the usual case, which compilers turn into shuffles
          for (uint64_t j = 0; j < 4; ++j) taps[j * kConvChannels + c] = weights[c * 4 + j];
        }
      } else {
        for (uint64_t c = 0; c < width; ++c) {
          for (uint64_t j = 0; j < count; ++j) taps[j * kConvChannels + c] = weights[c * kernel + j];
        }
      }
      for (uint64_t t = 0; t < n; ++t) {
        const float* rows[kConvTaps];
        for (uint64_t j = 0; j < count; ++j) rows[j] = input(t + first + j);
        float* out = y + t * channels + begin;
        for (uint64_t c = 0; c < width; c += 16) {
          const uint64_t m = width - c < 16 ? width - c : 16;
          Lanes acc = first == 0 ? set(0.0f) : load_part(out + c, m);
          for (uint64_t j = 0; j < count; ++j)
            acc = fma(load_part(taps + j * kConvChannels + c, m), load_part(rows[j] + c, m), acc);
          store_part(out + c, last ? silu(acc) : acc, m);
        }
      }
    }
    for (uint64_t t = 0; t < past; ++t) copy_exact(input(t + n), width, ring + t * channels + begin);
  }
}

constexpr DeltaKernels kDelta = {.advance = advance_body, .convolve = convolve_body};

}  // namespace
}  // namespace cortiq::kernels
