#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/half.h"
#include "kernels/attention_kernels.h"
#include "kernels/compare.h"

namespace cortiq::kernels {
namespace {

struct Geometry {
  uint32_t heads, kv_heads, head_dim;
  KvType type;
};

// A cache of one sequence filled with random keys and values, and the values it really holds after rounding.
class Cache {
 public:
  Cache(const Geometry& g, uint64_t positions, uint64_t seed) : geometry_(g), positions_(positions) {
    const uint64_t width = uint64_t{g.kv_heads} * g.head_dim;
    const std::vector<float> k = normal(positions * width, seed), v = normal(positions * width, seed + 1);
    const uint64_t bytes = kv_page_bytes(g.type, g.kv_heads, g.head_dim);
    for (uint64_t p = 0, stored = 0; p < positions; ++p) {
      if (p % kKvPage == 0) {
        // Every byte is set to a pattern that is NaN in all types, so that a read of an unwritten row shows.
        for (auto* pages : {&k_pages_, &v_pages_}) {
          storage_.push_back(std::make_unique<float[]>((bytes + 3) / 4));
          auto* page = reinterpret_cast<uint8_t*>(storage_.back().get());
          std::memset(page, 0xFF, bytes);
          pages->push_back(page);
        }
      }
      store_values(g.type, g.kv_heads, g.head_dim, p % kKvPage, v.data() + p * width,
                   const_cast<uint8_t*>(v_pages_.back()));
      const uint64_t group = p / kKeyLanes * kKeyLanes;  // keys in parts of 1 … 16 positions
      if (p + 1 != positions && (p + 1) % kKeyLanes != 0 && (p - group) % 5 != group / kKeyLanes) continue;
      store_keys(g.type, g.kv_heads, g.head_dim, stored % kKvPage, static_cast<uint32_t>(p + 1 - stored),
                 k.data() + stored * width, width, const_cast<uint8_t*>(k_pages_.back()));
      stored = p + 1;
    }
  }

  KvView view() const {
    return {geometry_.type, geometry_.kv_heads, geometry_.head_dim, k_pages_.data(), v_pages_.data()};
  }
  void drop_pages_before(uint64_t position) {
    for (uint64_t b = 0; b < position / kKvPage; ++b) k_pages_[b] = v_pages_[b] = nullptr;
  }
  double k(uint64_t p, uint32_t head, uint32_t i) const {
    const uint64_t row = head * kKvPage + p % kKvPage;
    return value(k_pages_, p, row, (row / 16 * geometry_.head_dim + i) * 16 + row % 16);
  }
  double v(uint64_t p, uint32_t head, uint32_t i) const {
    const uint64_t row = head * kKvPage + p % kKvPage;
    return value(v_pages_, p, row, row * geometry_.head_dim + i);
  }
  uint64_t positions() const { return positions_; }

 private:
  double value(const std::vector<const uint8_t*>& pages, uint64_t p, uint64_t row, uint64_t at) const {
    const uint8_t* page = pages[p / kKvPage];
    if (geometry_.type == KvType::F32) return reinterpret_cast<const float*>(page)[at];
    if (geometry_.type == KvType::F16) return f16_to_f32(reinterpret_cast<const uint16_t*>(page)[at]);
    const auto* scales = reinterpret_cast<const float*>(page + geometry_.kv_heads * kKvPage * geometry_.head_dim);
    return static_cast<double>(reinterpret_cast<const int8_t*>(page)[at]) * scales[row];
  }

  Geometry geometry_;
  uint64_t positions_;
  std::vector<std::unique_ptr<float[]>> storage_;
  std::vector<const uint8_t*> k_pages_, v_pages_;
};

// The last `count` positions of a cache as query rows.
struct Rows {
  Rows(const Geometry& g, const Cache& cache, uint64_t count, uint64_t window, uint64_t seed)
      : q(normal(count * g.heads * g.head_dim, seed)), out(q.size(), 7.0f) {
    for (uint64_t t = 0; t < count; ++t) {
      const uint64_t at = t * g.heads * g.head_dim;
      rows.push_back(
          {q.data() + at, out.data() + at, cache.view(), cache.positions() - count + t, window, g.heads, nullptr});
    }
  }
  std::vector<float> q, out;
  std::vector<AttentionRow> rows;
};

std::vector<double> naive(const Geometry& g, const Cache& cache, const AttentionRow& row, double scale, double cap) {
  std::vector<double> out;
  const uint64_t first = row.window == 0 || row.window > row.position ? 0 : row.position + 1 - row.window;
  for (uint32_t h = 0; h < g.heads; ++h) {
    const uint32_t kv = h / (g.heads / g.kv_heads);
    std::vector<double> s;
    for (uint64_t p = first; p <= row.position; ++p) {
      double dot = 0;
      for (uint32_t i = 0; i < g.head_dim; ++i) dot += row.q[h * g.head_dim + i] * cache.k(p, kv, i);
      dot *= scale;
      s.push_back(cap != 0 ? cap * std::tanh(dot / cap) : dot);
    }
    const double top = *std::max_element(s.begin(), s.end());
    double total = 0;
    for (double& x : s) total += x = std::exp(x - top);
    for (uint32_t i = 0; i < g.head_dim; ++i) {
      double value = 0;
      for (uint64_t p = first; p <= row.position; ++p) value += s[p - first] * cache.v(p, kv, i);
      out.push_back(value / total);
    }
  }
  return out;
}

const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> list = {
      {1, 1, 64, KvType::F16}, {4, 2, 128, KvType::F16}, {6, 2, 80, KvType::F32}, {8, 1, 20, KvType::Q8},
      {3, 3, 4, KvType::F16},  {40, 1, 32, KvType::F32}, {14, 2, 64, KvType::Q8}};
  return list;
}

std::vector<float> run(std::vector<AttentionRow> rows, std::vector<float>& out, Isa isa, size_t threads,
                       size_t batch = ~size_t{0}, float scale = 0.3f, float cap = 0) {
  ThreadPool pool(threads);
  Scratch scratch;
  std::fill(out.begin(), out.end(), 7.0f);
  for (size_t i = 0; i < rows.size(); i += std::min(batch, rows.size() - i)) {
    attention({rows.data() + i, std::min(batch, rows.size() - i)}, scale, cap, attention_kernels(isa), scratch, pool);
  }
  return out;
}

TEST(Attention, agrees_with_the_formula_in_double) {
  for (const Geometry& g : geometries()) {
    for (const uint64_t positions : {1u, 64u, 65u, 200u, 1100u}) {
      for (const uint64_t window : {0u, 1u, 17u, 130u}) {
        for (const float cap : {0.0f, 3.0f}) {
          const Cache cache(g, positions, positions);
          Rows rows(g, cache, std::min<uint64_t>(positions, 5), window, 99);
          run(rows.rows, rows.out, available_isas().back(), 1, 100, 0.3f, cap);
          for (const AttentionRow& row : rows.rows) {
            const std::vector<double> want = naive(g, cache, row, 0.3f, cap);
            for (size_t i = 0; i < want.size(); ++i) {
              ASSERT_NEAR(row.out[i], want[i], 8e-6 * std::max(1.0, std::abs(want[i])))
                  << g.heads << "/" << g.kv_heads << " heads of " << g.head_dim << ", position " << row.position
                  << ", window " << window << ", cap " << cap << ", value " << i;
            }
          }
        }
      }
    }
  }
}

TEST(Attention, instruction_sets_threads_and_batches_give_the_scalar_bits) {
  for (const Geometry& g : geometries()) {
    for (const uint64_t positions : {70u, 1100u, 2100u}) {
      for (const uint64_t window : {0u, 100u, 1200u}) {
        const Cache cache(g, positions, positions + window);
        if (g.heads > 6 && positions > 1500) continue;  // the scalar kernel is slow
        // More rows than a task takes, where that costs little.
        constexpr uint64_t kMany = kAttentionQueries + 3;
        Rows rows(g, cache, g.heads == 1 && positions > kMany ? kMany : 6, window, 3);
        const std::vector<float> want = run(rows.rows, rows.out, Isa::Scalar, 1, 1);
        for (const Isa isa : vector_isas()) {
          for (const size_t threads : {1u, 3u}) {
            for (const size_t batch : {size_t{1}, size_t{3}, size_t{kMany}}) {
              ASSERT_TRUE(same(want, run(rows.rows, rows.out, isa, threads, batch)))
                  << name(isa) << ", " << threads << " threads, batches of " << batch << ", " << g.heads << " heads of "
                  << g.head_dim << ", " << positions << " positions, window " << window;
            }
          }
        }
      }
    }
  }
}

TEST(Attention, sequences_in_one_batch_equal_each_alone) {
  const Geometry g{4, 2, 48, KvType::F16};
  const Cache first(g, 1300, 1), second(g, 90, 2), third(g, 1, 3);
  std::vector<AttentionRow> all;
  std::vector<std::unique_ptr<Rows>> each;
  std::vector<std::vector<float>> want;
  for (const Cache* cache : {&first, &second, &third}) {
    each.push_back(std::make_unique<Rows>(g, *cache, cache->positions() > 3 ? 3 : 1, 0, cache->positions()));
    want.push_back(run(each.back()->rows, each.back()->out, active_isa(), 1));
    std::fill(each.back()->out.begin(), each.back()->out.end(), 7.0f);
    all.insert(all.end(), each.back()->rows.begin(), each.back()->rows.end());
  }
  std::swap(all[1], all[4]);  // rows of a sequence need not stand together
  ThreadPool pool(3);
  Workspace workspace;
  attention(all, 0.3f, 0, workspace, pool);
  for (size_t i = 0; i < each.size(); ++i) EXPECT_TRUE(same(want[i], each[i]->out));
}

TEST(Attention, window_reads_no_page_it_has_passed) {
  const Geometry g{2, 1, 32, KvType::F16};
  Cache cache(g, 3000, 5);
  Rows rows(g, cache, 20, 150, 6);
  const std::vector<float> want = run(rows.rows, rows.out, active_isa(), 2);
  cache.drop_pages_before(3000 - 20 + 1 - 150);
  EXPECT_TRUE(same(want, run(rows.rows, rows.out, active_isa(), 2)));
  EXPECT_TRUE(same(want, run(rows.rows, rows.out, active_isa(), 2, 1)));
}

TEST(Attention, a_broken_later_row_does_not_reach_earlier_ones) {
  const Geometry g{4, 1, 32, KvType::F32};
  Cache cache(g, 40, 5);
  Rows rows(g, cache, 8, 0, 6);
  const std::vector<float> want = run(rows.rows, rows.out, active_isa(), 1);
  const std::vector<float> broken(32, std::numeric_limits<float>::quiet_NaN());
  const KvView view = cache.view();
  store_keys(g.type, 1, 32, 37, 1, broken.data(), 32, const_cast<uint8_t*>(view.k_pages[0]));
  store_values(g.type, 1, 32, 37, broken.data(), const_cast<uint8_t*>(view.v_pages[0]));
  const std::vector<float> got = run(rows.rows, rows.out, active_isa(), 1);
  const size_t row = size_t{g.heads} * g.head_dim;  // rows are positions 32 … 39
  EXPECT_TRUE(same({want.data(), 5 * row}, {got.data(), 5 * row}));
  for (size_t i = 5 * row; i < 8 * row; ++i) EXPECT_TRUE(std::isnan(got[i]));
}

TEST(Attention, dead_heads_are_zero_and_the_others_unchanged) {
  const Geometry g{6, 2, 32, KvType::F16};
  const Cache cache(g, 1300, 8);
  Rows rows(g, cache, 5, 0, 9);
  const std::vector<float> want = run(rows.rows, rows.out, active_isa(), 1);
  const uint8_t alive[6] = {0, 1, 1, 0, 0, 0};
  for (AttentionRow& row : rows.rows) row.head_alive = alive;
  for (const size_t threads : {1u, 4u}) {
    const std::vector<float> got = run(rows.rows, rows.out, active_isa(), threads);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(same(got[i], alive[i / 32 % 6] ? want[i] : 0.0f)) << i;
    }
  }
}

TEST(Attention, cache_rounds_as_decided) {
  const std::vector<float> x = edges();
  for (const Isa isa : available_isas()) {
    const auto n = static_cast<uint32_t>(x.size());
    std::vector<uint16_t> k(size_t{n} * kKvPage), v(k.size());
    attention_kernels(isa).store_keys(KvType::F16, 1, n, 35, 1, x.data(), n, reinterpret_cast<uint8_t*>(k.data()));
    attention_kernels(isa).store_values(KvType::F16, 1, n, 35, x.data(), reinterpret_cast<uint8_t*>(v.data()));
    for (uint32_t i = 0; i < n; ++i) {
      ASSERT_EQ(k[(2 * n + i) * 16 + 3], f32_to_f16_ieee_saturating(x[i])) << name(isa) << " " << x[i];
      ASSERT_EQ(v[35 * n + i], f32_to_f16_ieee_saturating(x[i])) << name(isa) << " " << x[i];
    }
  }
}

TEST(Attention, q8_scales_come_from_one_position_and_head) {
  constexpr uint32_t kDim = 24;
  std::vector<float> x = normal(2 * kDim, 4);
  x[5] = 10;
  for (uint32_t i = 0; i < kDim; ++i) x[kDim + i] = i == 3 ? std::numeric_limits<float>::infinity() : 1.0f;
  for (const Isa isa : available_isas()) {
    std::vector<float> page(kv_page_bytes(KvType::Q8, 2, kDim) / 4);
    auto* bytes = reinterpret_cast<uint8_t*>(page.data());
    attention_kernels(isa).store_values(KvType::Q8, 2, kDim, 9, x.data(), bytes);
    const auto* scales = reinterpret_cast<const float*>(bytes + 2 * kKvPage * kDim);
    const auto* codes = reinterpret_cast<const int8_t*>(bytes);
    EXPECT_EQ(scales[9], 10.0f / 127);
    for (uint32_t i = 0; i < kDim; ++i) {
      EXPECT_EQ(codes[9 * kDim + i], static_cast<int>(std::nearbyint(x[i] * 12.7f))) << name(isa) << " " << i;
    }
    EXPECT_TRUE(std::isnan(scales[kKvPage + 9]));  // an infinity must not become a clean value
    EXPECT_EQ(codes[(kKvPage + 9) * kDim], 0);
    const std::vector<float> tiny(2 * kDim, 0x1p-101f);
    attention_kernels(isa).store_values(KvType::Q8, 2, kDim, 10, tiny.data(), bytes);
    EXPECT_EQ(scales[10], 0);
    EXPECT_EQ(codes[10 * kDim], 0);
  }
}

}  // namespace
}  // namespace cortiq::kernels
