#pragma once
#include <memory>
#include <string>
#include <vector>

#include "convert/source.h"

namespace cortiq::convert {

/// One safetensors file: its whole header is checked (Parse or Bounds, naming the tensor) before a byte of payload is
/// touched. Offsets must be in order, without hole, overlap or trailing bytes, and agree with shape and dtype.
std::shared_ptr<const Source> open_safetensors_file(const std::string& path, FileSystem& files = FileSystem::real());

/// The weights of a Hugging Face directory: model.safetensors, or the shards that model.safetensors.index.json names.
/// `path` may also be a .safetensors in it: the shard of an index stands for the whole set.
std::shared_ptr<const Source> open_safetensors(const std::string& path, FileSystem& files = FileSystem::real());

/// Bits of an element, 0 for a name that safetensors does not know.
uint32_t safetensors_bits(std::string_view dtype) noexcept;

/// The parts of a safetensors source: files and the tensors in them.
class SafetensorsSource final : public Source {
 public:
  SafetensorsSource(std::vector<std::shared_ptr<const MappedFile>> files, std::vector<SourceTensor> tensors,
                    std::vector<std::string> warnings);
  std::span<const SourceTensor> tensors() const noexcept override { return tensors_; }
  void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const override;
  bool readable(const SourceTensor& tensor) const override;
  void will_need(const SourceTensor& tensor) const noexcept override;
  uint64_t bytes() const noexcept override;
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> warnings_;
};

/// Tensors of a mapped safetensors file, sorted by name, `file` as given.
std::vector<SourceTensor> parse_safetensors(const MappedFile& mapping, uint32_t file);

}  // namespace cortiq::convert
