#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmf/writer.h"

namespace cortiq::cmf {

/// What becomes different in a model.
struct Change {
  std::optional<Json> header;                 ///< the whole new header; section_hashes are filled in
  std::optional<std::vector<uint8_t>> masks;  ///< the new masks section; empty: none any more
  std::vector<std::string> remove;            ///< names that leave the directory
  std::vector<Declaration> add;               ///< tensors whose payloads follow
};

/// Changes a model in place, or writes the changed model to another file.
///
/// In place (§9, FORMAT_FACTS §14): new payloads, masks, header and directory go behind the end of the file, are
/// synced, and then one write of the envelope makes them the file's state. Bytes and offsets of what was there never
/// change, so readers that have the file open are undisturbed, and a crash leaves the old state or the new one; what is
/// no longer referred to stays as dead bytes until the file is compacted. A lock refuses a second writer. Of a set of
/// shards the first is changed: the registry and the masks stand there.
///
/// To another file: a new, tight file by tmp, sync and rename; a set of shards becomes one file. Old payloads are
/// copied piece by piece and checked against their hashes on the way.
///
/// A sparse index (§7) is left out when masks change and in new files: nothing uses or writes it any more.
class Update {
 public:
  /// `output` empty: in place. Opens (and locks) the model, whose header and masks the change is then made from.
  Update(FileSystem& files, const std::string& path, const std::string& output, Progress& progress = Progress::none(),
         const Cancellation& cancel = Cancellation::never());
  ~Update();

  const FileSet& model() const noexcept;
  /// The header's JSON, to be edited and given back; of a set that becomes one file, without the shard block.
  Json header() const;

  /// Checks the change and everything that does not depend on payloads.
  void begin(Change change);
  void append(Bytes payload);
  /// Returns the file's size.
  uint64_t finish();

  /// For people: a signature that no longer fits, an index that was left out.
  const std::vector<std::string>& warnings() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cortiq::cmf
