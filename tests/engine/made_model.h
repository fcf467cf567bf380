#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cmf/writer.h"
#include "support.h"

namespace cortiq::engine {

/// A model made by code: a llama, or a mixture of experts, with pseudo-random f32 weights.
struct MadeModel {
  cmf::Arch arch;
  std::vector<cmf::Declaration> tensors;

  explicit MadeModel(uint64_t hidden = 64, uint64_t width = 96, uint64_t layers = 2, uint64_t experts = 0) {
    arch.arch_name = "made";
    arch.hidden_size = hidden;
    arch.intermediate_size = width;
    arch.num_layers = layers;
    arch.num_attention_heads = 4;
    arch.num_kv_heads = 2;
    arch.head_dim = 16;
    arch.vocab_size = 50;
    arch.max_position_embeddings = 512;
    arch.layer_types.assign(layers, cmf::LayerType::FullAttention);
    if (experts != 0) {
      arch.moe = cmf::Moe{};
      arch.moe->num_experts = experts;
      arch.moe->top_k = 2;
      arch.moe->moe_intermediate_size = width;
      arch.moe->norm_topk_prob = true;
    }
    const auto h = static_cast<uint32_t>(hidden), w = static_cast<uint32_t>(width);
    add("model.embed_tokens.weight", {50, h});
    for (uint64_t layer = 0; layer < layers; ++layer) {
      const std::string p = "model.layers." + std::to_string(layer) + ".";
      add(p + "input_layernorm.weight", {h});
      add(p + "self_attn.q_proj.weight", {64, h});
      add(p + "self_attn.k_proj.weight", {32, h});
      add(p + "self_attn.v_proj.weight", {32, h});
      add(p + "self_attn.o_proj.weight", {h, 64});
      add(p + "post_attention_layernorm.weight", {h});
      if (experts == 0) {
        add(p + "mlp.gate_proj.weight", {w, h});
        add(p + "mlp.up_proj.weight", {w, h});
        add(p + "mlp.down_proj.weight", {h, w});
        continue;
      }
      add(p + "mlp.gate.weight", {static_cast<uint32_t>(experts), h});
      for (const char* role : {"gate", "up", "down"}) {
        for (uint64_t e = 0; e < experts; ++e) {
          const bool down = std::string(role) == "down";
          add(p + "mlp.experts." + std::to_string(e) + "." + role + "_proj.weight", {down ? h : w, down ? w : h});
        }
      }
    }
    add("model.norm.weight", {h});
    add("lm_head.weight", {50, h});
  }

  void add(std::string name, codec::Shape shape) { tensors.push_back({std::move(name), codec::Dtype::F32, shape}); }
  cmf::Declaration& find(const std::string& name) {
    for (cmf::Declaration& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  void remove(const std::string& name) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name != name) continue;
      tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
    throw std::out_of_range(name);
  }

  std::string write(const Json* skills = nullptr, std::string tokenizer = {}) const {
    static int number = 0;
    cmf::Contents contents;
    contents.header = Json::object();
    contents.tokenizer_json = std::move(tokenizer);
    contents.header["format"] = "cmf";
    contents.header["version"] = 2;
    contents.header["arch"] = cmf::write_arch(arch);
    contents.header["quant_type"] = "F32";
    if (skills != nullptr) contents.header["skills"] = *skills;
    const std::string path = (scratch() / ("made" + std::to_string(++number) + ".cmf")).string();
    cmf::Writer writer(FileSystem::real(), path, contents, tensors);
    Random random(1);
    for (const cmf::Declaration& tensor : tensors) {
      std::vector<float> values(tensor.shape.elements());
      for (float& value : values) {
        value = tensor.shape.rank == 1 ? 1.0f : (random.uniform() - 0.5f) * 0.3f;
      }
      writer.append(Bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)));
    }
    writer.finish();
    return path;
  }
};

}  // namespace cortiq::engine
