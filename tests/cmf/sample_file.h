#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "cmf/lossless_json.h"
#include "cmf/update.h"
#include "cmf/writer.h"
#include "support/memory_file_system.h"

namespace cortiq::cmf {

/// The header of a small model of two layers.
inline Json sample_header() {
  Arch arch;
  arch.arch_name = "llama";
  arch.hidden_size = 64;
  arch.intermediate_size = 36;
  arch.num_layers = 2;
  arch.num_attention_heads = 4;
  arch.num_kv_heads = 2;
  arch.head_dim = 16;
  arch.vocab_size = 8;
  arch.max_position_embeddings = 128;
  arch.layer_types = {LayerType::FullAttention, LayerType::SlidingAttention};
  arch.sliding_window = 16;
  Json out = Json::object();
  out["format"] = "cmf";
  out["version"] = 2;
  out["arch"] = write_arch(arch);
  out["quant_type"] = "F32";
  out["provenance"] = Json{{"tool", "test"}};
  return out;
}

inline std::vector<float> sample_values(uint64_t count, unsigned seed = 1) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i + 17 * seed);
    out[i] = static_cast<float>(0.02 * std::sin(1.7 * at) + 0.001 * std::cos(0.3 * at));
  }
  return out;
}

struct SampleTensor {
  Declaration declaration;
  std::vector<uint8_t> payload;
};

inline SampleTensor sample_tensor(std::string name, codec::Dtype dtype, codec::Shape shape, unsigned seed = 1) {
  static ThreadPool pool(1);
  std::vector<float> values = sample_values(shape.elements(), seed);
  if (dtype == codec::Dtype::U8) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * seed % 256);
  }
  codec::EncodeOptions options;
  options.keep = 0.05F;
  return {{std::move(name), dtype, shape}, codec::of(dtype).encode(values, shape, options, pool)};
}

/// One tensor of every dtype, a norm, and a replacement by the skill "demo".
inline std::vector<SampleTensor> sample_tensors() {
  std::vector<SampleTensor> out;
  for (const codec::Codec* codec : codec::all()) {
    out.push_back(sample_tensor("model.layers.0." + std::string(codec->name()) + ".weight", codec->dtype(), {4, 64},
                                static_cast<unsigned>(out.size() + 1)));
  }
  out.push_back(sample_tensor("model.norm.weight", codec::Dtype::F16, {64}));
  out.push_back(sample_tensor("skill.demo.model.layers.0.f32.weight", codec::Dtype::Q8Row, {4, 64}, 99));
  return out;
}

inline Masks sample_masks() {
  Masks out;
  out.default_task = "general";
  Mask one;
  one.task_id = 3;
  one.name = "general";
  one.priority = "Fallback";
  one.ffn = {std::vector<uint8_t>(36, 1), std::vector<uint8_t>(36, 1)};
  one.ffn[1][7] = 0;
  one.heads = {{1, 1, 0, 1}, {1, 1, 1, 1}};
  one.gates = {1, 1};
  out.masks.push_back(one);
  return out;
}

/// Every section and every dtype.
inline Contents sample_contents() {
  Contents out;
  out.header = sample_header();
  Json record = Json::object();
  record["id"] = "demo";
  record["layers"] = Json::array({0});
  record["input_mask_task"] = nullptr;
  out.header["skills"] = Json::array({record});
  out.header["somebody_elses"] =
      parse_lossless_json(R"({"big":1e400,"long":123456789012345678901234567890,"x":[null]})", "");
  out.tokenizer_json = R"({"model":{"type":"BPE","vocab":{},"merges":[]}})";
  out.masks = write_masks(sample_masks(), parse_arch(out.header["arch"], ""));
  return out;
}

inline uint64_t write_sample(FileSystem& files, const std::string& path, Contents contents,
                             const std::vector<SampleTensor>& tensors) {
  std::vector<Declaration> declarations;
  for (const SampleTensor& one : tensors) declarations.push_back(one.declaration);
  Writer writer(files, path, std::move(contents), std::move(declarations));
  for (const SampleTensor& one : tensors) writer.append(Bytes{std::span<const uint8_t>(one.payload)});
  return writer.finish();
}
inline void write_sample(FileSystem& files, const std::string& path) {
  write_sample(files, path, sample_contents(), sample_tensors());
}

}  // namespace cortiq::cmf
