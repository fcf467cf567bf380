#pragma once
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/half.h"
#include "base/hash64.h"
#include "convert/fake_source.h"

namespace cortiq::convert {

/// A value in about ±1 that depends on name and index alone.
inline float toy_value(const std::string& name, uint64_t index) {
  const double phase = static_cast<double>(hash64(Bytes(name)) % 1000);
  return static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(index)) *
                            (1 + 0.1 * std::cos(0.01 * static_cast<double>(index))));
}

inline Json toy_config(uint64_t layers = 2) {
  return {{"model_type", "llama"},    {"hidden_size", 64},
          {"intermediate_size", 96},  {"num_hidden_layers", layers},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"vocab_size", 80},         {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", false},
          {"eos_token_id", 2}};
}

inline std::shared_ptr<FakeSource> toy_source(uint64_t layers = 2, const std::string& dtype = "F32",
                                              FakeSource::Value value = toy_value) {
  auto out = std::make_shared<FakeSource>(std::move(value));
  out->add("model.embed_tokens.weight", {80, 64}, dtype);
  out->add("lm_head.weight", {80, 64}, dtype);
  out->add("model.norm.weight", {64}, dtype);
  for (uint64_t l = 0; l < layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    out->add(layer + "input_layernorm.weight", {64}, dtype);
    out->add(layer + "post_attention_layernorm.weight", {64}, dtype);
    out->add(layer + "self_attn.q_proj.weight", {64, 64}, dtype);
    out->add(layer + "self_attn.k_proj.weight", {32, 64}, dtype);
    out->add(layer + "self_attn.v_proj.weight", {32, 64}, dtype);
    out->add(layer + "self_attn.o_proj.weight", {64, 64}, dtype);
    out->add(layer + "mlp.gate_proj.weight", {96, 64}, dtype);
    out->add(layer + "mlp.up_proj.weight", {96, 64}, dtype);
    out->add(layer + "mlp.down_proj.weight", {64, 96}, dtype);
  }
  return out;
}

}  // namespace cortiq::convert
