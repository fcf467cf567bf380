#include "cmf/compact.h"

namespace cortiq::cmf {

Compacted compact(FileSystem& files, const std::string& path, const std::string& output, Progress& progress,
                  const Cancellation& cancel) {
  if (output.empty()) fail(ErrorKind::Usage, "{}: no output is named", path);
  Update update(files, path, output, progress, cancel);
  Compacted out;
  for (const auto& file : update.model().files()) {
    out.bytes_before += file->size();
    if (update.model().files().size() > 1 && same_file(files, file->path(), output)) {
      fail(ErrorKind::Usage, "{}: is a shard of the set; the merged file needs another name", output);
    }
  }
  out.bytes = update.finish();
  out.warnings = update.warnings();
  return out;
}

Compacted merge(FileSystem& files, const std::string& path, const std::string& output, Progress& progress,
                const Cancellation& cancel) {
  if (!File::open(path, files)->header().shard) fail(ErrorKind::Usage, "{}: is no shard of a set", path);
  return compact(files, path, output, progress, cancel);
}

}  // namespace cortiq::cmf
