#pragma once
#include <string>
#include <vector>

#include "base/hash64.h"
#include "cmf/writer.h"

namespace cortiq::cmf {

/// Writes a model as a set of shards (§10), with Writer's interface: NAME.cmf becomes NAME-00001-of-0000N.cmf and so
/// on. Tensors go to shards in the order given, which is to be the canonical one; a shard is closed when the next
/// tensor would bring its size, counted as f32, over the threshold. All shards appear when the last one is complete,
/// the first one last: a set without its first shard is no set. A threshold of 0 means one ordinary file under
/// `output`.
class ShardedWriter {
 public:
  static constexpr size_t kMostShards = 500;  ///< each is an open file until the set is complete

  /// Io if a set of that name exists and is another one: a set cannot be replaced in one step.
  ShardedWriter(FileSystem& files, const std::string& output, Contents contents, std::vector<Declaration> declarations,
                uint64_t f32_bytes_per_shard);

  void append(Bytes payload);
  void append(Bytes payload, codec::Dtype dtype);
  void append(const FileSet& source, const Tensor& tensor, Progress& progress = Progress::none(),
              const Cancellation& cancel = Cancellation::never());
  /// Returns the size of all files together.
  uint64_t finish();

  const std::vector<std::string>& paths() const noexcept { return paths_; }

 private:
  Writer& current();

  FileSystem& files_;
  Json whole_;       // the header of the model
  bool single_;      // one file, no set
  Hash64 identity_;  // of everything that makes this set this set
  std::vector<std::string> paths_;
  std::vector<Writer> writers_;
  std::vector<size_t> left_;  // tensors that each still waits for
  size_t at_ = 0;
};

/// Positions at which a new shard begins, 0 first.
std::vector<size_t> plan_shards(std::span<const Declaration> tensors, uint64_t f32_bytes_per_shard);

/// Splits a model into shards beside `output`'s name, its tensors in canonical order. Returns the paths.
std::vector<std::string> split(FileSystem& files, const std::string& path, const std::string& output,
                               uint64_t f32_bytes_per_shard, Progress& progress = Progress::none(),
                               const Cancellation& cancel = Cancellation::never());

}  // namespace cortiq::cmf
