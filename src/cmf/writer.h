#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/file_system.h"
#include "base/progress.h"
#include "cmf/file.h"

namespace cortiq::cmf {

/// What a new file will hold beside its tensors. Sections are bytes as they go to disk.
struct Contents {
  Json header;                 ///< section_hashes are filled in by the writer
  std::string tokenizer_json;  ///< empty: no section
  std::vector<uint8_t> masks;  ///< empty: no section (see write_masks)
};

/// A tensor that will come: everything but its bytes, which arrive later in this order.
struct Declaration {
  std::string name;
  codec::Dtype dtype;
  codec::Shape shape;
};

/// Writes a new CMF file tensor by tensor with one payload in memory at a time: declare all tensors, append their
/// payloads in the same order, finish. Tensors of 16 KiB and more begin on a page, others on 64 bytes; zero padding
/// between (§4, FORMAT_FACTS §3.1). The file appears under its name when finish() returns, or not at all.
///
/// Payload sizes of variable-length dtypes are known only when they arrive, so the directory is written last; its size,
/// and with it the place of the data section, is known from the declarations.
class Writer {
 public:
  /// Checks what a reader will check (header, names, masks, skills), reserves the head, opens the temporary file.
  Writer(FileSystem& files, const std::string& target, Contents contents, std::vector<Declaration> declarations);
  ~Writer();
  Writer(Writer&&) noexcept;

  /// The next payload; its size must fit the declared dtype and shape (checked by the codec).
  void append(Bytes payload);
  /// The same in another dtype of fixed size than declared: a matrix that f16 cannot hold becomes f32 (decisions 14).
  void append(Bytes payload, codec::Dtype dtype);
  /// The next payload copied from another file in pieces, which never leaves more than a piece in memory. HashMismatch
  /// if the source is not what its directory says.
  void append(const FileSet& source, const Tensor& tensor, Progress& progress = Progress::none(),
              const Cancellation& cancel = Cancellation::never());
  /// Writes sections, directory, header and envelope, syncs and renames. Returns the file's size.
  uint64_t finish();

  /// finish() in two steps, for files that must appear together: seal() writes and syncs, commit() gives the name.
  /// A header given to seal() replaces the first one; its text must have the same length.
  uint64_t seal(const Json* header = nullptr);
  void commit();

  /// What the directory says of the tensors appended so far.
  std::span<const Tensor> tensors() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The bytes of a masks section (§5, FORMAT_FACTS §6) for a model of this arch. Rows, areas and ends of rows that a
/// mask does not have are active; tail bits are zero.
std::vector<uint8_t> write_masks(const Masks& masks, const Arch& arch);

/// required_features for what a file holds (FORMAT_FACTS §1).
uint32_t features_of(const Json& header, std::span<const Tensor> tensors, bool has_masks, bool loop_masks);

/// The order in which tensors go to disk: FORMAT_FACTS §3.1 point 9, a layer's experts role by role (§2.2).
bool canonical_less(std::string_view a, std::string_view b);

}  // namespace cortiq::cmf
