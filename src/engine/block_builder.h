#pragma once
#include <string>

#include "cmf/arch.h"
#include "engine/blocks.h"

namespace cortiq::engine {

/// Builds one block from the tensors below a prefix ("model.layers.3."), checking every shape (ENGINE_FACTS §22).
class BlockBuilder {
 public:
  BlockBuilder(WeightTable& weights, const cmf::Arch& arch) : weights_(weights), arch_(arch) {}

  struct Place {
    std::string prefix;
    uint64_t heads = 0;
    cmf::LayerType type = cmf::LayerType::FullAttention;
    uint64_t window = 0;
    int32_t rope = -1;
  };
  Block build(const Place& place);

 private:
  Attention attention(const Place& place);
  DeltaNet delta_net(const Place& place);
  DenseFfn dense(const std::string& prefix);
  MoeFfn moe(const std::string& prefix);
  std::string file() const { return weights_.set().first().path(); }
  uint64_t rows_of(WeightRef ref) const { return weights_.matrix(ref).rows(); }

  WeightTable& weights_;
  const cmf::Arch& arch_;
};

}  // namespace cortiq::engine
