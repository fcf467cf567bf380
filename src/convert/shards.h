#pragma once
#include <string>
#include <vector>

#include "cmf/writer.h"

namespace cortiq::convert {

/// Writes declared tensors, in their order, into one file or a set of shards (FORMAT_FACTS §10): a shard is closed
/// before the tensor that would take it beyond the limit, sizes counted as 4 bytes an element; shard 1 alone has the
/// tokenizer, chat bundle, skills and masks. All files get their names together at the end, or none does.
class ShardWriter {
 public:
  /// max_bytes 0: one file under `output`. Otherwise {stem}-00001-of-0000N.cmf beside it.
  ShardWriter(FileSystem& files, const std::string& output, const cmf::Contents& contents,
              std::vector<cmf::Declaration> declarations, uint64_t max_bytes);

  /// Moves on to the next file; false after the last. The tensors [first(), last()) of it are then to be appended.
  bool next();
  cmf::Writer& writer() { return writers_.back(); }
  size_t first() const noexcept { return ends_[writers_.size() - 1]; }
  size_t last() const noexcept { return ends_[writers_.size()]; }

  /// Syncs all files, then renames them. Returns their size together.
  uint64_t finish();
  const std::vector<std::string>& paths() const noexcept { return paths_; }

 private:
  FileSystem& files_;
  cmf::Contents contents_;
  std::vector<cmf::Declaration> declarations_;
  std::vector<size_t> ends_;  // tensors before each file, and the end
  std::vector<std::string> paths_;
  std::vector<cmf::Writer> writers_;
  uint64_t bytes_ = 0;
  bool sharded_;
};

}  // namespace cortiq::convert
