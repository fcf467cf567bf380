#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/thread_pool.h"
#include "convert/source.h"

namespace cortiq::convert {

/// A low-rank adapter in PEFT's layout: adapter_config.json and adapter_model.safetensors. W' = W + scale·B·A in f32,
/// scale = alpha/r (alpha/sqrt(r) with use_rslora); modules_to_save replace whole tensors. Whatever else the config
/// asks for (DoRA, fan_in_fan_out, per-layer ranks by pattern, biases) is applied exactly or refused by its key.
class Lora {
 public:
  static Lora open(const std::string& directory, FileSystem& files = FileSystem::real());

  struct Target {
    std::string name;                 ///< the CMF tensor it changes: "model.layers.0.self_attn.q_proj.weight"
    const SourceTensor* a = nullptr;  ///< [r, in]; nullptr for a whole replacement
    const SourceTensor* b = nullptr;  ///< [out, r], or the replacement
    float scale = 0;
  };
  std::span<const Target> targets() const noexcept { return targets_; }

  /// weights: rows × cols of the base tensor in, of the merged tensor out. Bounds, naming it, if the shapes disagree.
  void merge(const Target& target, std::span<float> weights, uint64_t rows, uint64_t cols, ThreadPool& pool) const;

 private:
  std::shared_ptr<const Source> source_;
  std::vector<Target> targets_;
};

}  // namespace cortiq::convert
