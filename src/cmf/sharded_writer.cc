#include "cmf/sharded_writer.h"

#include <algorithm>

#include "cmf/directory.h"
#include "cmf/intact.h"
#include "cmf/lossless_json.h"
#include "cmf/shard_header.h"
#include "cmf/shard_name.h"

namespace cortiq::cmf {
namespace {

const std::string kUnknownSet(16, '0');  // until all bytes are written; as long as what replaces it

// A crash in the middle of the renames leaves a set without its first shard, or the set itself: both may be written
// over.
void refuse_other_set(FileSystem& files, const std::string& first, const std::string& set) {
  if (!files.exists(first)) return;
  std::string there;
  try {
    const auto file = File::open(first, files);
    const Json& json = *file->header().json;
    const auto provenance = json.find("provenance");
    if (provenance != json.end() && provenance->is_object()) there = provenance->value("shard_set", "");
  } catch (const Error&) {
    there.clear();  // not a file that this program may take for its own
  }
  if (there != set) fail(ErrorKind::Io, "{}: another set of that name exists; remove it or choose another name", first);
}

}  // namespace

std::vector<size_t> plan_shards(std::span<const Declaration> tensors, uint64_t f32_bytes_per_shard) {
  std::vector<size_t> out{0};
  uint64_t size = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t next = checked_multiply(4, tensors[i].shape.elements());
    if (i != out.back() && (size > f32_bytes_per_shard || next > f32_bytes_per_shard - size)) {
      out.push_back(i);
      size = 0;
    }
    size = checked_add(size, next);
  }
  return out;
}

ShardedWriter::ShardedWriter(FileSystem& files, const std::string& output, Contents contents,
                             std::vector<Declaration> declarations, uint64_t f32_bytes_per_shard)
    : files_(files), whole_(std::move(contents.header)), single_(f32_bytes_per_shard == 0) {
  identity_.update(Bytes(write_json(whole_)));
  identity_.update(Bytes(contents.tokenizer_json));
  identity_.update(Bytes{std::span<const uint8_t>(contents.masks)});
  if (single_) {
    paths_.push_back(output);
    left_.push_back(declarations.size());
    contents.header = whole_;
    writers_.emplace_back(files, output, std::move(contents), std::move(declarations));
    return;
  }
  std::vector<size_t> begins = plan_shards(declarations, f32_bytes_per_shard);
  const size_t count = begins.size();
  if (count > kMostShards) {
    fail(ErrorKind::Usage, "{}: would become {} shards, {} are the most; allow larger ones", output, count,
         kMostShards);
  }
  begins.push_back(declarations.size());
  for (size_t i = 0; i < count; ++i) {
    paths_.push_back(shard_name(shard_stem(output), i + 1, count));
    left_.push_back(begins[i + 1] - begins[i]);
    const auto first = declarations.begin() + static_cast<ptrdiff_t>(begins[i]);
    std::vector<Declaration> own(std::make_move_iterator(first),
                                 std::make_move_iterator(first + static_cast<ptrdiff_t>(left_.back())));
    Contents part{shard_header(whole_, i + 1, count, kUnknownSet), "", {}};
    if (i == 0) {
      part.tokenizer_json = std::move(contents.tokenizer_json);
      part.masks = std::move(contents.masks);
    }
    writers_.emplace_back(files, paths_.back(), std::move(part), std::move(own));
  }
}

Writer& ShardedWriter::current() {
  while (at_ < left_.size() && left_[at_] == 0) ++at_;
  if (at_ == left_.size()) fail(ErrorKind::Usage, "{}: more payloads than declared tensors", paths_.front());
  --left_[at_];
  return writers_[at_];
}

void ShardedWriter::append(Bytes payload) { current().append(payload); }

void ShardedWriter::append(Bytes payload, codec::Dtype dtype) { current().append(payload, dtype); }

void ShardedWriter::append(const FileSet& source, const Tensor& tensor, Progress& progress,
                           const Cancellation& cancel) {
  current().append(source, tensor, progress, cancel);
}

uint64_t ShardedWriter::finish() {
  if (single_) return writers_.front().finish();
  for (const Writer& writer : writers_) {
    const std::vector<uint8_t> directory = write_directory(writer.tensors());
    identity_.update(Bytes{std::span<const uint8_t>(directory)});
  }
  const std::string set = hex64(identity_.finish());
  refuse_other_set(files_, paths_.front(), set);
  uint64_t size = 0;
  for (size_t i = 0; i < writers_.size(); ++i) {
    const Json header = shard_header(whole_, i + 1, writers_.size(), set);
    size += writers_[i].seal(&header);
  }
  for (size_t i = writers_.size(); i-- > 0;) writers_[i].commit();
  return size;
}

std::vector<std::string> split(FileSystem& files, const std::string& path, const std::string& output,
                               uint64_t f32_bytes_per_shard, Progress& progress, const Cancellation& cancel) {
  if (f32_bytes_per_shard == 0) fail(ErrorKind::Usage, "{}: a shard of 0 bytes holds nothing", output);
  const auto model = FileSet::open(path, files);
  for (const auto& file : model->files()) require_intact_sections(*file);
  std::vector<const Tensor*> order;
  uint64_t total = 0;
  for (const Tensor& tensor : model->tensors()) {
    order.push_back(&tensor);
    total += tensor.nbytes;
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Tensor* a, const Tensor* b) { return canonical_less(a->name, b->name); });
  std::vector<Declaration> declarations;
  for (const Tensor* tensor : order) declarations.push_back({std::string(tensor->name), tensor->dtype, tensor->shape});
  const Bytes masks = model->first().masks_bytes();
  Contents contents{without_shard(*model->header().json),
                    std::string(model->first().tokenizer_json()),
                    {masks.span().begin(), masks.span().end()}};
  ShardedWriter writer(files, output, std::move(contents), std::move(declarations), f32_bytes_per_shard);
  progress.begin("split", total);
  for (const Tensor* tensor : order) writer.append(*model, *tensor, progress, cancel);
  writer.finish();
  progress.end();
  return writer.paths();
}

}  // namespace cortiq::cmf
