#include <nlohmann/json.hpp>
#include <optional>

#include "cmf/file.h"
#include "cmf/lossless_json.h"
#include "cmf/shard_name.h"
#include "cmf/skill_tensors.h"

namespace cortiq::cmf {
namespace {

// What must be the same in every shard of one model (§10): two sets of one name differ here if anywhere.
std::string identity(const File& file) {
  const Json& json = *file.header().json;
  std::string out;
  for (const char* key : {"arch", "quant_type", "provenance"}) {
    const auto at = json.find(key);
    out += at == json.end() ? "" : write_json(*at);
    out += '\n';
  }
  return out;
}

std::vector<std::shared_ptr<const File>> open_shards(std::shared_ptr<const File> named, FileSystem& files) {
  const std::optional<ShardPlace>& place = named->header().shard;
  if (!place || place->count == 1) return {std::move(named)};
  const auto name = parse_shard_name(named->path());
  if (!name) {
    fail(ErrorKind::Parse,
         "{}: is shard {} of {}, but is not named so; its siblings are looked for as NAME-{:05}-of-{:05}.cmf",
         named->path(), place->no, place->count, 1, place->count);
  }
  if (name->no != place->no || name->count != place->count) {
    fail(ErrorKind::Parse, "{}: its header says shard {} of {}, its name {} of {}", named->path(), place->no,
         place->count, name->no, name->count);
  }
  std::vector<std::shared_ptr<const File>> out;
  std::string same;
  for (uint64_t no = 1; no <= place->count; ++no) {
    const std::string path = shard_name(name->stem, no, place->count);
    if (!files.exists(path)) fail(ErrorKind::Io, "{}: this shard of {} is missing", path, named->path());
    out.push_back(no == place->no ? named : File::open(path, files));
    const std::optional<ShardPlace>& its = out.back()->header().shard;
    if (!its || its->no != no || its->count != place->count) {
      fail(ErrorKind::Parse, "{}: its header says {}, its name shard {} of {}", path,
           its ? fmt::format("shard {} of {}", its->no, its->count) : "that it is no shard", no, place->count);
    }
    const std::string facts = identity(*out.back());
    if (no == 1) same = facts;
    if (facts != same) {
      fail(ErrorKind::Parse, "{}: belongs to another model than {}: arch, quant_type or provenance differ", path,
           out.front()->path());
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<const FileSet> FileSet::open(const std::string& path, FileSystem& files) {
  auto set = std::make_shared<FileSet>();
  set->files_ = open_shards(File::open(path, files), files);
  if (set->files_.size() == 1) return set;
  size_t count = 0;
  for (const auto& file : set->files_) count += file->tensors().size();
  set->tensors_.reserve(count);
  for (uint32_t shard = 0; shard < set->files_.size(); ++shard) {
    for (Tensor tensor : set->files_[shard]->tensors()) {
      tensor.shard = shard;
      set->tensors_.push_back(tensor);
    }
  }
  const std::span<const Tensor> tensors = set->tensors_;
  set->names_ = NameIndex(tensors, [&](size_t first, size_t second) {
    fail(ErrorKind::Parse, "{}: tensor '{}' is in shard {} and in shard {}", path, printable(tensors[second].name),
         tensors[first].shard + 1, tensors[second].shard + 1);
  });
  if (!set->first().is_skill_file()) {
    check_skill_tensors(tensors, set->header(), set->first().path(),
                        [&](std::string_view name) { return set->find(name); });
  }
  return set;
}

std::shared_ptr<const FileSet> FileSet::single(std::shared_ptr<const File> file) {
  auto set = std::make_shared<FileSet>();
  set->files_ = {std::move(file)};
  return set;
}

const Tensor* FileSet::find(std::string_view name) const noexcept {
  return files_.size() == 1 ? first().find(name) : names_.find(tensors_, name);
}

void FileSet::advise(const Tensor& tensor, MappedFile::Advice advice) const noexcept {
  const File& file = *files_[tensor.shard];
  file.mapping().advise(file.envelope().data.offset + tensor.offset, tensor.nbytes, advice);
}

void decode_rows(const FileSet& set, const Tensor& tensor, uint64_t first, uint64_t count, float* out) {
  const uint64_t rows = tensor.shape.rows();
  if (first > rows || count > rows - first) {
    fail(ErrorKind::Bounds, "tensor '{}': rows {} to {} of {}", printable(tensor.name), first, first + count, rows);
  }
  codec::of(tensor.dtype).decode(set.payload(tensor), tensor.shape, first, count, out);
}

}  // namespace cortiq::cmf
