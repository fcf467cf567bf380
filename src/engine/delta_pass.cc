#include <cmath>
#include <cstring>

#include "engine/pass.h"

namespace cortiq::engine {

// Fills u_ [n][channels], z_ [n][value_dim], b_ and a_ [n][v_heads].
void Pass::project_delta(const DeltaNet& part, const Where& where, RowInfos rows, const float* x) {
  const uint64_t n = rows.size(), channels = part.channels(), values = part.value_dim(), heads = part.v_heads;
  float* u = room(u_, n * channels);
  float* z = room(z_, n * values);
  float* b = room(b_, n * heads);
  float* a = room(a_, n * heads);
  if (part.qkv) {
    const Projection projections[] = {
        {part.qkv, {}, u, channels}, {part.z, {}, z, values}, {part.b, {}, b, heads}, {part.a, {}, a, heads}};
    project(rows, where, x, hidden_, projections);
    return;
  }
  // Fused rows: for each key head g: q [dk], k [dk], v [R·dv], z [R·dv]; and b [R], a [R] (ENGINE_FACTS §8).
  float* fused = room(fused_, n * (channels + values));
  float* ba = room(fused_ba_, n * 2 * heads);
  const Projection projections[] = {{part.qkvz, {}, fused, channels + values}, {part.ba, {}, ba, 2 * heads}};
  project(rows, where, x, hidden_, projections);
  const uint64_t ratio = part.v_heads / part.k_heads, dk = part.dk, group = ratio * part.dv;
  for_rows(n, [&](size_t i) {
    const float* from = fused + i * (channels + values);
    const float* pair = ba + i * 2 * heads;
    float* q = u + i * channels;
    float* k = q + part.key_dim();
    float* v = k + part.key_dim();
    const auto copy = [&](float* to, uint64_t count) {
      std::memcpy(to, from, count * sizeof(float));
      from += count;
    };
    for (uint64_t g = 0; g < part.k_heads; ++g) {
      copy(q + g * dk, dk);
      copy(k + g * dk, dk);
      copy(v + g * group, group);
      copy(z + i * values + g * group, group);
      std::memcpy(b + i * heads + g * ratio, pair + 2 * g * ratio, ratio * sizeof(float));
      std::memcpy(a + i * heads + g * ratio, pair + (2 * g + 1) * ratio, ratio * sizeof(float));
    }
  });
}

// ENGINE_FACTS §8. x [rows][hidden], already normed; rows of one sequence stand together, in order.
void Pass::delta_net(const DeltaNet& part, const Where& where, RowInfos rows, const float* x, float* y) {
  const uint64_t n = rows.size(), channels = part.channels(), keys = part.key_dim(), values = part.value_dim();
  const uint64_t heads = part.v_heads;
  project_delta(part, where, rows, x);
  float* u = u_.data();
  float* z = z_.data();
  float* beta = b_.data();
  float* decay = a_.data();
  float* conv = room(conv_, n * channels);
  float* q = room(dq_, n * keys);
  float* k = room(dk_, n * keys);
  float* v = room(dv_, n * values);
  float* core = room(core_, n * values);
  const auto each_run = [&](const auto& body) {
    for (size_t first = 0; first < n;) {
      size_t end = first + 1;
      while (end < n && rows[end].sequence == rows[first].sequence) ++end;
      Sequence& sequence = *rows[first].sequence;
      body(first, end - first, sequence.delta_[sequence.place_[where.visit]]);
      first = end;
    }
  };
  each_run([&](size_t first, size_t count, DeltaCache& cache) {
    cache.remember(u + first * channels, count);
    kernels::causal_conv_silu(cache.ring(), binding(rows[first]).vector(part.conv), static_cast<uint32_t>(channels),
                              part.kernel, count, u + first * channels, conv + first * channels, pool_);
  });
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(part.dk)));
  constexpr double kEps = 1e-6;  // fixed, not the norms' (§8 step 4)
  for_rows(n, [&](size_t i) {
    const Binding& bound = binding(rows[i]);
    const float* c = conv + i * channels;
    for (uint64_t h = 0; h < part.k_heads; ++h) {
      kernels::l2_norm(c + h * part.dk, part.dk, kEps, scale, q + i * keys + h * part.dk);
      kernels::l2_norm(c + keys + h * part.dk, part.dk, kEps, 1.0f, k + i * keys + h * part.dk);
    }
    std::memcpy(v + i * values, c + 2 * keys, values * sizeof(float));
    const float* a_log = bound.vector(part.a_log);
    const float* dt_bias = bound.vector(part.dt_bias);
    for (uint64_t h = 0; h < heads; ++h) {
      float& g = decay[i * heads + h];
      g = -kernels::exp_f32(a_log[h]) * kernels::softplus_f32(g + dt_bias[h]);
      beta[i * heads + h] = kernels::sigmoid_f32(beta[i * heads + h]);
    }
  });
  each_run([&](size_t first, size_t count, DeltaCache& cache) {
    kernels::delta_rule(cache.state(), count, q + first * keys, k + first * keys, v + first * values,
                        decay + first * heads, beta + first * heads, core + first * values, workspace_, pool_);
  });
  // The gated norm has plain weights whatever the model's norm style is.
  for_rows(n, [&](size_t i) {
    const float* w = binding(rows[i]).vector(part.norm);
    for (uint64_t h = 0; h < heads; ++h) {
      float* o = core + i * values + h * part.dv;
      kernels::rms_norm(o, w, part.dv, eps_, false, o);
      kernels::silu_multiply(z + i * values + h * part.dv, o, part.dv);
    }
  });
  const Projection output{part.out, {}, y, hidden_};
  project(rows, where, z, values, {&output, 1});
}

}  // namespace cortiq::engine
