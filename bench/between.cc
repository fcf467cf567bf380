// bench_between [NAME…]
//
// What lies between the matrices: elementary functions and norms, attention, the delta rule, the thread pool's barrier.
// One thread and its processor time, so that other work on the machine disturbs little; the smallest of several runs.
// Attention and the delta rule are judged against f32 multiply-adds from registers, attention of one token also against
// reading memory. NAME: only lines that contain it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_kernels.h"
#include "kernels/delta_kernels.h"
#include "kernels/delta_rule.h"
#include "kernels/elementwise_kernels.h"
#include "probe.h"
#include "probe_float.h"

namespace cortiq::bench {
namespace {

using namespace kernels;

std::vector<std::string> wanted;

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class Work>
double least(int repeats, Work work, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  work();
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    const double start = seconds(clock);
    work();
    best = std::min(best, seconds(clock) - start);
  }
  return best;
}

bool skipped(const std::string& label) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto& n) { return label.find(n) == std::string::npos; });
}

void print(const std::string& label, const std::string& result) {
  if (skipped(label)) return;
  fmt::print("{:44} {}\n", label, result);
  std::fflush(stdout);
}

std::vector<float> normal(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> values;
  std::vector<float> x(n);
  for (float& v : x) v = values(random);
  return x;
}

double multiply_adds(Isa isa) {
  double done = 0;
  const double time = least(5, [&] { done = isa >= Isa::Avx512 ? fma_avx512(200000) : fma_avx2(200000); });
  return done / time;
}

double read_speed(Isa isa) {
  std::vector<uint8_t> data(256 << 20, 1);
  volatile int64_t sink = 0;
  const double time =
      least(3, [&] { sink = sink + (isa >= Isa::Avx512 ? read_avx512 : read_avx2)(data.data(), data.size()); });
  return static_cast<double>(data.size()) / time;
}

void elementwise(Isa isa) {
  constexpr size_t kWidth = 4096;
  const ElementwiseKernels& k = elementwise_kernels(isa);
  const std::vector<float> x = normal(kWidth);
  std::vector<float> y(kWidth);
  const auto line = [&](const char* what, auto work) {
    const double time = least(200, [&] {
      std::memcpy(y.data(), x.data(), kWidth * sizeof(float));
      work(y.data());
    });
    print(fmt::format("{} {}", what, name(isa)), fmt::format("{:.3f} ns a value", time * 1e9 / kWidth));
  };
  line("exp", [&](float* z) { k.exp(z, kWidth); });
  line("silu·up", [&](float* z) { k.silu_multiply(z, x.data(), kWidth); });
  line("gelu_tanh·up", [&](float* z) { k.gelu_tanh_multiply(z, x.data(), kWidth); });
  line("softmax", [&](float* z) { k.softmax(z, kWidth); });
  line("rms norm", [&](float* z) { k.rms_norm(z, x.data(), kWidth, 1e-6, false, z); });
  line("add", [&](float* z) { k.add(z, x.data(), kWidth); });
}

class Cache {
 public:
  Cache(KvType type, uint32_t kv_heads, uint32_t head_dim, uint64_t positions)
      : type_(type), kv_heads_(kv_heads), head_dim_(head_dim) {
    const std::vector<float> x = normal(size_t{kv_heads} * head_dim);
    const size_t floats = kv_page_bytes(type, kv_heads, head_dim) / 4;
    for (uint64_t p = 0; p < positions; ++p) {
      if (p % kKvPage == 0) {
        for (auto* pages : {&k_, &v_}) {
          storage_.push_back(std::make_unique<float[]>(floats));
          pages->push_back(reinterpret_cast<uint8_t*>(storage_.back().get()));
        }
      }
      store_keys(type, kv_heads, head_dim, p % kKvPage, 1, x.data(), x.size(), const_cast<uint8_t*>(k_.back()));
      store_values(type, kv_heads, head_dim, p % kKvPage, x.data(), const_cast<uint8_t*>(v_.back()));
    }
  }
  KvView view() const { return {type_, kv_heads_, head_dim_, k_.data(), v_.data()}; }

 private:
  KvType type_;
  uint32_t kv_heads_, head_dim_;
  std::vector<std::unique_ptr<float[]>> storage_;
  std::vector<const uint8_t*> k_, v_;
};

struct Heads {
  uint32_t heads, kv_heads, head_dim;
};

void attend(Isa isa, Heads h, KvType type, const char* type_name, uint64_t positions, uint64_t tokens, double peak,
            double read) {
  const std::string label = fmt::format("attention {}/{}x{} {} {} of {} {}", h.heads, h.kv_heads, h.head_dim, type_name,
                                        tokens, positions, name(isa));
  if (skipped(label)) return;
  const Cache cache(type, h.kv_heads, h.head_dim, positions);
  const uint64_t width = uint64_t{h.heads} * h.head_dim;
  const std::vector<float> q = normal(tokens * width);
  std::vector<float> out(q.size());
  std::vector<AttentionRow> rows;
  double work = 0;
  for (uint64_t t = 0; t < tokens; ++t) {
    const uint64_t position = positions - tokens + t;
    rows.push_back({q.data() + t * width, out.data() + t * width, cache.view(), position, 0, h.heads, nullptr});
    work += 2 * static_cast<double>((position + 1) * width);
  }
  ThreadPool pool(1);
  Scratch scratch;
  const float scale = 1 / std::sqrt(static_cast<float>(h.head_dim));
  const double time =
      least(tokens > 1 ? 5 : 30, [&] { attention(rows, scale, 0, attention_kernels(isa), scratch, pool); });
  const double bytes = 2.0 * static_cast<double>(positions / kKvPage * kv_page_bytes(type, h.kv_heads, h.head_dim));
  print(label, tokens > 1 ? fmt::format("{:8.0f} us, {:.2f} of f32 peak", time * 1e6, work / time / peak)
                          : fmt::format("{:8.0f} us, {:.1f} GB/s = {:.2f} of read", time * 1e6, bytes / time / 1e9,
                                        bytes / time / read));
}

// The recurrence of ENGINE_FACTS §8 row by row, as one would write it.
void recurrence(float* s, const float* q, const float* k, const float* v, float* o, uint64_t dk, uint64_t dv) {
  std::vector<float> r(dv), out(dv);
  for (uint64_t c = 0; c < dk; ++c) {
    for (uint64_t d = 0; d < dv; ++d) r[d] += s[c * dv + d] * k[c];
  }
  for (uint64_t d = 0; d < dv; ++d) r[d] = 0.5f * (v[d] - 0.9f * r[d]);
  for (uint64_t c = 0; c < dk; ++c) {
    for (uint64_t d = 0; d < dv; ++d) {
      s[c * dv + d] = 0.9f * s[c * dv + d] + k[c] * r[d];
      out[d] += s[c * dv + d] * q[c];
    }
  }
  std::copy(out.begin(), out.end(), o);
}

void delta(Isa isa, double peak) {
  constexpr uint32_t kKeyHeads = 16, kValueHeads = 32, kDim = 128;
  constexpr uint64_t kRows = 512, kKeys = kKeyHeads * kDim, kValues = kValueHeads * kDim;
  const std::string label = fmt::format("delta rule 16/32x128 512 rows {}", name(isa));
  if (skipped(label)) return;
  const std::vector<float> q = normal(kRows * kKeys), v = normal(kRows * kValues);
  std::vector<float> k = q, state(kValues * kDim), keys(64 * kKeys), u(64 * kValues), decay(64 * kValueHeads),
                     o(kRows * kValues);
  for (float& x : k) x *= 0.08f;
  const std::vector<float> g(kRows * kValueHeads, -0.1f), beta(kRows * kValueHeads, 0.5f);
  DeltaState rule{state.data(), keys.data(), u.data(), decay.data(), kKeyHeads, kValueHeads, kDim, kDim, 0};
  ThreadPool pool(1);
  Scratch scratch;
  const auto rows_at_a_time = [&](uint64_t step) {
    return least(3, [&] {
      for (uint64_t t = 0; t < kRows; t += step) {
        delta_rule(rule, step, q.data() + t * kKeys, k.data() + t * kKeys, v.data() + t * kValues,
                   g.data() + t * kValueHeads, beta.data() + t * kValueHeads, o.data() + t * kValues,
                   delta_kernels(isa), scratch, pool);
      }
    });
  };
  const double chunked = rows_at_a_time(kRows), single = rows_at_a_time(1);
  const double plain = least(1, [&] {
    for (uint64_t t = 0; t < kRows; ++t) {
      for (uint64_t h = 0; h < kValueHeads; ++h) {
        recurrence(state.data() + h * kDim * kDim, q.data() + t * kKeys + h / 2 * kDim,
                   k.data() + t * kKeys + h / 2 * kDim, v.data() + t * kValues + h * kDim,
                   o.data() + t * kValues + h * kDim, kDim, kDim);
      }
    }
  });
  // Per row and value head: S·k, S·q and the update of S, and half a chunk's rows twice; dot products per key head.
  const double work = kRows * (kValues * (3.0 * kDim + 64) + kKeys * 64.0);
  print(label, fmt::format("{:.1f} ms, {:.2f} of f32 peak; row by row {:.1f} ms, plain recurrence {:.1f} ms",
                           chunked * 1e3, work / chunked / peak, single * 1e3, plain * 1e3));
}

void barrier() {
  for (const size_t threads : {size_t{2}, size_t{8}}) {
    ThreadPool pool(threads);
    constexpr int kLoops = 1000;
    const double time = least(
        20,
        [&] {
          for (int i = 0; i < kLoops; ++i) pool.run(threads, [](size_t) {});
        },
        CLOCK_MONOTONIC);
    print(fmt::format("empty loop, {} threads", threads), fmt::format("{:.2f} us", time * 1e6 / kLoops));
  }
}

void run(Isa isa) {
  elementwise(isa);
  const double peak = multiply_adds(isa), read = read_speed(isa);
  for (const Heads heads : {Heads{16, 8, 128}, Heads{16, 2, 256}}) {
    attend(isa, heads, KvType::F16, "f16", 4096, 1, peak, read);
    attend(isa, heads, KvType::Q8, "q8", 4096, 1, peak, read);
    attend(isa, heads, KvType::F16, "f16", 512, 512, peak, read);
    attend(isa, heads, KvType::F16, "f16", 4096, 64, peak, read);
  }
  delta(isa, peak);
}

}  // namespace
}  // namespace cortiq::bench

int main(int argc, char** argv) {
  cortiq::bench::wanted.assign(argv + 1, argv + argc);
  for (const cortiq::Isa isa : cortiq::available_isas()) {
    if (isa != cortiq::Isa::Scalar) cortiq::bench::run(isa);
  }
  cortiq::bench::barrier();
}
