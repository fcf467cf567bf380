#pragma once
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/file_system.h"
#include "cmf/file.h"

namespace cortiq::cmf {

/// What a new file will hold beside its tensors. Sections are bytes as they go to disk.
struct Contents {
  Json header;                    ///< without section_hashes, which the writer fills in
  std::string tokenizer_json;     ///< empty: no section
  std::vector<uint8_t> masks;     ///< empty: no section (see write_masks)
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
/// Payload sizes of variable-length dtypes are known only when they arrive, so the directory is written last; its size
/// is known from the declarations.
class Writer {
 public:
  /// Checks limits (name lengths, counts), reserves the head, opens the temporary file.
  Writer(FileSystem& files, const std::string& target, Contents contents, std::vector<Declaration> declarations);
  ~Writer();

  /// The next payload; its size must fit the declared dtype and shape (checked by the codec).
  void append(Bytes payload);
  /// Writes sections, directory, header and envelope, syncs and renames. Returns the file's size.
  uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The bytes of a masks section (§5, FORMAT_FACTS §6) for a model of this arch; tail bits zero.
std::vector<uint8_t> write_masks(const Masks& masks, const Arch& arch);

/// required_features for what a file holds (FORMAT_FACTS §1).
uint32_t features_of(const Json& header, std::span<const Declaration> tensors, bool has_masks, bool loop_masks);

/// The order in which tensors go to disk: FORMAT_FACTS §3.1 point 9, a layer's experts role by role (§2.2).
bool canonical_less(std::string_view a, std::string_view b);

}  // namespace cortiq::cmf
