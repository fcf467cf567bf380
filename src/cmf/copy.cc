#include "cmf/copy.h"

#include <algorithm>

#include "base/hash64.h"

namespace cortiq::cmf {
namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;

}  // namespace

void copy_payload(const FileSet& source, const Tensor& tensor, OutputFile& target, uint64_t offset, Progress& progress,
                  const Cancellation& cancel) {
  progress.item(tensor.name);
  const File& file = *source.files()[tensor.shard];
  const Bytes payload = source.payload(tensor);
  Hash64 hash;
  for (uint64_t at = 0; at < payload.size(); at += kPiece) {
    cancel.check();
    const Bytes piece = payload.slice(at, std::min(kPiece, payload.size() - at));
    hash.update(piece);
    target.write_at(offset + at, piece);
    file.mapping().advise(file.envelope().data.offset + tensor.offset + at, piece.size(), MappedFile::Advice::DontNeed);
    progress.advance(piece.size());
  }
  if (hash.finish() != tensor.hash) {
    fail(ErrorKind::HashMismatch, "{}: tensor '{}' is damaged: its hash is {}, the directory says {}", file.path(),
         printable(tensor.name), hex64(hash.finish()), hex64(tensor.hash));
  }
}

}  // namespace cortiq::cmf
