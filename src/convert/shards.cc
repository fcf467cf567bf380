#include "convert/shards.h"

#include <nlohmann/json.hpp>

namespace cortiq::convert {

ShardWriter::ShardWriter(FileSystem& files, const std::string& output, const cmf::Contents& contents,
                         std::vector<cmf::Declaration> declarations, uint64_t max_bytes)
    : files_(files), contents_(contents), declarations_(std::move(declarations)), ends_{0}, sharded_(max_bytes > 0) {
  uint64_t size = 0;
  for (size_t i = 0; sharded_ && i < declarations_.size(); ++i) {
    const uint64_t next = checked_multiply(declarations_[i].shape.elements(), 4);
    if (size > 0 && checked_add(size, next) > max_bytes) {
      ends_.push_back(i);
      size = 0;
    }
    size += next;
  }
  ends_.push_back(declarations_.size());
  if (!sharded_) {
    paths_.push_back(output);
    return;
  }
  const size_t count = ends_.size() - 1;
  if (count > 99999) fail(ErrorKind::Usage, "{}: {} shards; choose a larger limit", output, count);
  const std::string stem = output.ends_with(".cmf") ? output.substr(0, output.size() - 4) : output;
  for (size_t no = 1; no <= count; ++no) paths_.push_back(fmt::format("{}-{:05}-of-{:05}.cmf", stem, no, count));
}

bool ShardWriter::next() {
  if (!writers_.empty()) bytes_ += writers_.back().seal();
  const size_t no = writers_.size();
  if (no == paths_.size()) return false;
  cmf::Contents contents;
  if (no == 0) {
    contents = contents_;
  } else {
    contents.header = contents_.header;
    contents.header.erase("tokenizer_config");
    contents.header.erase("skills");
  }
  if (sharded_) contents.header["shard"] = {{"no", no + 1}, {"count", paths_.size()}};
  const auto begin = declarations_.begin();
  writers_.emplace_back(
      files_, paths_[no], std::move(contents),
      std::vector(begin + static_cast<ptrdiff_t>(ends_[no]), begin + static_cast<ptrdiff_t>(ends_[no + 1])));
  return true;
}

uint64_t ShardWriter::finish() {
  for (cmf::Writer& one : writers_) one.commit();
  return bytes_;
}

}  // namespace cortiq::convert
