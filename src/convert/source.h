#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/json.h"

// Where the weights of a conversion come from: something that lists tensors and reads them as f32. Implementations:
// safetensors directories (safetensors.h), GGUF files (gguf/), and sources that change another one (overlays, LoRA).
namespace cortiq::convert {

/// A tensor of a source. Seen as a matrix it has rows() × cols() elements: the last dimension by all others before it
/// (a scalar is 1 × 1), so that every row of a 3-D expert tensor can be read alone.
struct SourceTensor {
  std::string name;             ///< as the source spells it; may hold any bytes (show it through printable())
  std::string dtype;            ///< as the source spells it: "BF16", "Q4_K", …
  std::vector<uint64_t> shape;  ///< outermost first; the product fits 64 bits
  uint64_t nbytes = 0;          ///< of its payload in the source
  uint64_t offset = 0;          ///< of its payload in its file
  uint32_t file = 0;            ///< which file of the source

  uint64_t elements() const noexcept;
  uint64_t cols() const noexcept { return shape.empty() ? 1 : shape.back(); }
  uint64_t rows() const noexcept { return cols() == 0 ? 0 : elements() / cols(); }
  /// "[3, 4]"
  std::string shape_text() const;
};

class Source {
 public:
  virtual ~Source() = default;

  /// All tensors, sorted by name, names distinct.
  virtual std::span<const SourceTensor> tensors() const noexcept = 0;

  /// Rows [first, first + count) as f32 into out (count × cols() values). Unsupported, naming the tensor, for a dtype
  /// that is no number format known here. Values are passed on as they are, NaN included: encoders refuse them. Pages
  /// that have been read are let go, so that memory does not grow with the source. Safe from several threads.
  virtual void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const = 0;

  /// True if read_rows() can read this tensor's dtype.
  virtual bool readable(const SourceTensor&) const { return true; }

  /// Tells the source that a tensor will be read next.
  virtual void will_need(const SourceTensor&) const noexcept {}

  /// True if the values are exact in this 16-bit type, so that storing them in it loses nothing: "F16", "BF16".
  virtual bool holds(const SourceTensor& tensor, std::string_view dtype) const { return tensor.dtype == dtype; }

  /// The payload of the whole tensor in a CMF dtype (named as §3.1 spells it), where the source stores the very same
  /// numbers in another arrangement, so that going through f32 and an encoder would lose some; else nothing.
  virtual std::optional<std::vector<uint8_t>> encoded(const SourceTensor& /*tensor*/,
                                                      std::string_view /*dtype*/) const {
    return std::nullopt;
  }

  virtual uint64_t bytes() const noexcept = 0;  ///< size of all files
  /// Sentences for the user: shards that the index omits, a stale single file…
  virtual const std::vector<std::string>& warnings() const noexcept = 0;

  /// nullptr if there is none of that name.
  const SourceTensor* find(std::string_view name) const noexcept;
};

/// A model as somebody else stores it: what the plan is made from. Config values are in the Hugging Face spelling; an
/// importer of another format fills in the same keys.
struct Checkpoint {
  std::string path;                                         ///< as given, for messages and provenance
  std::string config_path;                                  ///< what messages about the config name
  std::string format = "huggingface";                       ///< for provenance
  Json config;                                              ///< the object of config.json
  std::optional<Json> generation_config, tokenizer_config;  ///< objects; absent if the file is absent
  std::string tokenizer_json;                               ///< whole; empty: none
  std::string chat_template;                                ///< of chat_template.jinja; blank counts as absent
  std::vector<std::string> notes, warnings;
  std::shared_ptr<const Source> source;  ///< filled by open_weights() when it is empty

  /// Opens the weights on first use: a config that is refused is refused before any tensor is looked at.
  const Source& weights();
  std::shared_ptr<const Source> (*open_weights)(const std::string& path, FileSystem& files) = nullptr;
  FileSystem* files = &FileSystem::real();
};

/// Opens a Hugging Face directory, or the one of a .safetensors in it. Config, tokenizer and template are read, weights
/// are not looked at.
Checkpoint open_huggingface(const std::string& path, FileSystem& files = FileSystem::real());

/// Opens a Hugging Face directory (or the .safetensors in one) or a .gguf file.
Checkpoint open_checkpoint(const std::string& path, FileSystem& files = FileSystem::real());

}  // namespace cortiq::convert
