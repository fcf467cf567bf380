#pragma once
#include <vector>

#include "base/cpu.h"
#include "kernels/jobs.h"
#include "kernels/matmul.h"

namespace cortiq::kernels {

/// The kernels of an instruction set that this processor has.
const KernelTable& kernels_for(Isa isa) noexcept;

/// Activations quantised in one way: which columns, multiplied by which field, in which arrangement. Products of a
/// group that agree in all of this share them.
struct ActivationSet {
  Flavour flavour;
  std::span<const uint32_t> columns;
  const uint8_t* field;   ///< f16 column field of q8_2f, or nullptr
  uint64_t cols, groups;  ///< of the weights
  bool spread;            ///< an overlay needs the f32 activations at their original columns
  uint64_t token_bytes;
  uint8_t* data;
  float* spread_x;      ///< [token][cols]
  uint64_t first_item;  ///< among the pieces of work of the quantisation
};

/// One product with what was decided about it.
struct Plan {
  const Product* product;
  bool integer;
  Planes planes;            ///< if integer, or if the kernels decode it
  uint64_t decode_scratch;  ///< bytes the kernels need for decoding; 0: the codec decodes
  size_t set;               ///< if integer
  uint64_t rows;            ///< outputs a token
  uint64_t chunk_rows, first_chunk;
};

struct Workspace::State {
  const KernelTable* table = nullptr;
  std::vector<Plan> plans;
  std::vector<ActivationSet> sets;
  std::vector<Tile> tiles;
  Scratch activations, spread;
  std::vector<Scratch> workers;
};

}  // namespace cortiq::kernels
