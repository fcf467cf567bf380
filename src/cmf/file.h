#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "cmf/header.h"
#include "codec/codec.h"

namespace cortiq::cmf {

/// required_features bits (§1.1).
enum Feature : uint32_t {
  kTensorDir = 1u << 0,
  kBinaryMasks = 1u << 1,
  kQuant2f = 1u << 2,
  kDeltaMasks = 1u << 3,
  kHotPacks = 1u << 4,
  kLoopMasks = 1u << 5,
  kSkillFile = 1u << 6,
};

struct Section {
  uint64_t offset = 0, length = 0;
};

/// The fixed 128 bytes at the beginning (§1).
struct Envelope {
  uint32_t version = 2, flags = 0, features = kTensorDir;
  Section header, directory, data, masks, vocab, index;
  uint64_t header_hash = 0, directory_hash = 0;
};

/// A tensor as the directory describes it (§3). Names are views into the mapped file.
struct Tensor {
  std::string_view name;
  codec::Dtype dtype;
  codec::Shape shape;
  uint64_t offset = 0;  ///< relative to the data section of its shard
  uint64_t nbytes = 0;
  uint64_t hash = 0;
  uint32_t shard = 0;  ///< index of the file it lies in; 0 for a single file
};

/// A hash table from names to positions in a list of tensors: open addressing, 4 bytes a slot.
class NameIndex {
 public:
  NameIndex() = default;
  /// `duplicate` is told of two positions with one name, and must throw.
  NameIndex(std::span<const Tensor> tensors, const std::function<void(size_t, size_t)>& duplicate);
  const Tensor* find(std::span<const Tensor> tensors, std::string_view name) const noexcept;

 private:
  std::vector<uint32_t> slots_;  // position + 1; 0: free
};

/// A task mask (§5), decoded: absent areas are open. Rows hold one byte a bit (1 = active).
struct Mask {
  uint32_t task_id = 0;
  std::string name, description, priority;
  double sparsity = 0;
  std::string quality;  ///< JSON text; empty when not measured
  std::string json;     ///< the whole record as it stands in the file, unknown keys and all
  bool has_expert_fields = false, per_visit = false;
  bool tail_bits = false;                     ///< bits beyond a dimension were found set
  std::vector<std::vector<uint8_t>> ffn;      ///< [layers or visits][intermediate]
  std::vector<std::vector<uint8_t>> heads;    ///< [layers][heads]
  std::vector<uint8_t> gates;                 ///< [layers]
  std::vector<std::vector<uint8_t>> experts;  ///< [layers][experts]; empty without expert fields
};
struct Masks {
  std::string default_task;
  std::vector<Mask> masks;
  std::string json;  ///< the whole catalogue as it stands in the file; empty: made by code
};

/// An opened CMF file: mapped, checked against §1.2 and FORMAT_FACTS §3.2, and from then on an immutable value.
/// Nothing of a tensor's payload has been touched except the index planes of variable-length dtypes.
class File {
 public:
  /// Opens one file, which may be any shard alone. Errors as §1.2 names them.
  static std::shared_ptr<const File> open(const std::string& path, FileSystem& files = FileSystem::real());

  const std::string& path() const noexcept { return mapping_->path(); }
  uint64_t size() const noexcept { return mapping_->bytes().size(); }
  const MappedFile& mapping() const noexcept { return *mapping_; }
  const Envelope& envelope() const noexcept { return envelope_; }
  const Header& header() const noexcept { return header_; }
  Bytes header_bytes() const { return section(envelope_.header); }
  Bytes directory_bytes() const { return section(envelope_.directory); }

  /// In directory order.
  std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// nullptr if there is none of that name.
  const Tensor* find(std::string_view name) const noexcept;
  Bytes payload(const Tensor& tensor) const;

  /// Empty without a tokenizer section. Parse if the section is not UTF-8.
  std::string_view tokenizer_json() const;
  const Masks& masks() const noexcept { return masks_; }
  Bytes masks_bytes() const { return section(envelope_.masks); }
  Bytes vocab_bytes() const { return section(envelope_.vocab); }
  Bytes index_bytes() const { return section(envelope_.index); }

  /// hash64 of the directory bytes: what §9.1 binds skills to.
  uint64_t directory_hash() const;

  /// A partial tensor set that cannot be run (§9.1): feature bit 6, or a record bound to a base.
  bool is_skill_file() const noexcept;

 private:
  friend class Opener;
  Bytes section(const Section& one) const;

  std::shared_ptr<const MappedFile> mapping_;
  Envelope envelope_;
  Header header_;
  std::vector<Tensor> tensors_;
  NameIndex names_;
  Masks masks_;
};

/// One model in one or several files (§10), seen as one: what commands that run or rewrite a model open.
class FileSet {
 public:
  /// `path`: a file, or any shard of a set; siblings are found by pattern. Named errors for a missing sibling, counts
  /// that disagree, a shard of another model, a tensor in two shards.
  static std::shared_ptr<const FileSet> open(const std::string& path, FileSystem& files = FileSystem::real());

  /// A set of one file, shard or not: for commands that look at the named file alone.
  static std::shared_ptr<const FileSet> single(std::shared_ptr<const File> file);

  const File& first() const noexcept { return *files_.front(); }
  std::span<const std::shared_ptr<const File>> files() const noexcept { return files_; }
  const Header& header() const noexcept { return first().header(); }
  std::span<const Tensor> tensors() const noexcept { return files_.size() == 1 ? first().tensors() : tensors_; }
  const Tensor* find(std::string_view name) const noexcept;
  Bytes payload(const Tensor& tensor) const { return files_[tensor.shard]->payload(tensor); }
  void advise(const Tensor& tensor, MappedFile::Advice advice) const noexcept;

 private:
  std::vector<std::shared_ptr<const File>> files_;
  std::vector<Tensor> tensors_;  // of several files; those of one are looked at where they are
  NameIndex names_;
};

/// Decodes rows of a tensor to f32 (count × shape.cols() values).
void decode_rows(const FileSet& set, const Tensor& tensor, uint64_t first, uint64_t count, float* out);

}  // namespace cortiq::cmf
