#pragma once
#include <memory>
#include <string>
#include <vector>

#include "convert/gguf/architecture.h"
#include "convert/source.h"

namespace cortiq::convert::gguf {

/// The tensors of a model in one or several GGUF files, under their Hugging Face names, rows in Hugging Face order.
class GgufSource final : public Source {
 public:
  struct Stored {
    SourceTensor tensor;
    const Type* type;
    uint64_t heads;  ///< > 0: the rows (or elements) of so many heads are interleaved in the file
    bool one_plus;   ///< the file holds 1 + w
  };
  /// Parse, Bounds or Unsupported if the tensors are not those of one model.
  GgufSource(std::vector<File> files, std::vector<Stored> stored);

  std::span<const SourceTensor> tensors() const noexcept override { return tensors_; }
  void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const override;
  void will_need(const SourceTensor& tensor) const noexcept override;
  std::optional<std::vector<uint8_t>> encoded(const SourceTensor& tensor, std::string_view dtype) const override;
  uint64_t bytes() const noexcept override;
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }

 private:
  const Stored& stored(const SourceTensor& tensor) const;
  const uint8_t* row(const Stored& stored, uint64_t index) const;
  void read_row(const Stored& stored, uint64_t index, float* out) const;

  std::vector<File> files_;
  std::vector<SourceTensor> tensors_;
  std::vector<Stored> stored_;  ///< in the same order
  std::vector<std::string> warnings_;
};

/// Opens a .gguf file, or all parts of a split model by any part's name. A file without tensors gives a checkpoint with
/// a tokenizer only.
Checkpoint open(const std::string& path, FileSystem& files);

}  // namespace cortiq::convert::gguf
