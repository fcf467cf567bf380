#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "convert/gguf/file.h"

// What an architecture name of GGUF means: the same model in the spelling of a Hugging Face config, and its tensors'
// names there.
namespace cortiq::convert::gguf {

struct Architecture {
  std::string_view name;        ///< general.architecture
  std::string_view model_type;  ///< of the config
  /// The rows of q and k stand so that pairs (2i, 2i+1) rotate together, not halves (i, i + d/2).
  bool interleaved = false;
  bool gemma = false;  ///< norms are stored as 1 + w, sandwich norms, tanh gelu, head always tied
  std::vector<std::string_view> own_keys = {};  ///< beyond those that all architectures have
};

/// Unsupported, naming it, for an architecture that is not known.
const Architecture& find_architecture(const File& file);

/// Sizes that names and shapes depend on.
struct Sizes {
  uint64_t layers = 0, hidden = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
};

/// The config.json that this model would have. Keys that may change results and are not known are Unsupported by name.
/// rotary_factors: divisors of the frequencies that the model stores as a tensor; empty: none.
Json make_config(const File& file, const Architecture& architecture, const Sizes& sizes, bool tied,
                 const std::vector<float>& rotary_factors);

/// Parse if a size is missing, zero, or too large for the tensors that are there.
Sizes read_sizes(const File& file, const Architecture& architecture, uint64_t vocabulary, uint64_t tensors);

/// A tensor under its other name, and what its rows need.
struct Named {
  std::string name;             ///< empty: no weight of the model (rope_freqs)
  std::vector<uint64_t> shape;  ///< that it must have
  uint64_t heads = 0;           ///< > 0: rows of so many heads are interleaved
  bool one_plus = false;        ///< stored as 1 + w
};

/// Unsupported for a name that no model of this architecture has, Parse for a block beyond the last.
Named name_tensor(std::string_view name, const Architecture& architecture, const Sizes& sizes);

}  // namespace cortiq::convert::gguf
