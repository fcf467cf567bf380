#include "cmf/file.h"

#include <simdjson.h>

#include "base/hash64.h"
#include "cmf/directory.h"
#include "cmf/envelope.h"
#include "cmf/masks.h"
#include "cmf/skill_tensors.h"
#include "cmf/sparse_index.h"

namespace cortiq::cmf {
namespace {

// One tensor against its section (§1.2, FORMAT_FACTS §3.2): alignment, span, and a payload that its dtype can decode.
void check_tensor(const Tensor& tensor, Bytes data) {
  if (tensor.offset % kTensorAlignment != 0) {
    fail(ErrorKind::Bounds, "begins at {}, not at a multiple of {}", tensor.offset, kTensorAlignment);
  }
  if (!data.holds(tensor.offset, tensor.nbytes)) {
    fail(ErrorKind::Bounds,
         "{} bytes at {} end beyond the data section's {}: the file is cut short or damaged; copy it again",
         tensor.nbytes, tensor.offset, data.size());
  }
  codec::of(tensor.dtype).validate(data.slice(tensor.offset, tensor.nbytes), tensor.shape);
}

void check_tensors(std::span<const Tensor> tensors, Bytes data, std::string_view what) {
  const Tensor* at = nullptr;
  try {
    for (const Tensor& tensor : tensors) {
      at = &tensor;
      check_tensor(tensor, data);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: tensor '{}' ({} {}): {}", what, printable(at->name),
                                          codec::name(at->dtype), at->shape.text(), error.what()));
  }
}

}  // namespace

// The order of the checks is that of FORMAT_FACTS §0 row 11: what is found first names the error.
class Opener {
 public:
  static std::shared_ptr<const File> open(const std::string& path, FileSystem& files) {
    auto file = std::make_shared<File>();
    file->mapping_ = files.map(path);
    const Bytes bytes = file->mapping_->bytes();
    file->envelope_ = parse_envelope(bytes, path);
    const Envelope& envelope = file->envelope_;
    if (envelope.header.length > kMaxHeaderBytes) {
      fail(ErrorKind::Bounds, "{}: a header of {} bytes, {} are allowed", path, envelope.header.length,
           kMaxHeaderBytes);
    }
    file->header_ = parse_header(file->header_bytes().text(), path);
    file->tensors_ = parse_directory(file->directory_bytes(), path);
    const std::span<const Tensor> tensors = file->tensors_;
    check_tensors(tensors, section(bytes, envelope.data), path);
    file->names_ = NameIndex(tensors, [&](size_t first, size_t second) {
      fail(ErrorKind::Parse, "{}: tensor records {} and {} both have the name '{}'", path, first, second,
           printable(tensors[second].name));
    });
    // A shard's replacements may stand apart from their backbone; the set is checked as one (§10). A skill file has
    // none.
    if (!file->header_.shard && !file->is_skill_file()) {
      check_skill_tensors(tensors, file->header_, path, [&](std::string_view name) { return file->find(name); });
    }
    if (envelope.masks.length != 0) {
      file->masks_ = parse_masks(file->masks_bytes(), file->header_.arch, (envelope.features & kLoopMasks) != 0, path);
    }
    if (envelope.index.length != 0) parse_sparse_index(file->index_bytes(), path);
    return file;
  }

  static Bytes section(Bytes bytes, const Section& one) {
    return one.length == 0 ? Bytes() : bytes.slice(one.offset, one.length);
  }
};

std::shared_ptr<const File> File::open(const std::string& path, FileSystem& files) { return Opener::open(path, files); }

Bytes File::section(const Section& one) const { return Opener::section(mapping_->bytes(), one); }

Bytes File::payload(const Tensor& tensor) const {
  if (tensor.nbytes == 0) return {};  // the data section may be absent, and its offset is then anything
  return mapping_->bytes().slice(envelope_.data.offset + tensor.offset, tensor.nbytes);
}

const Tensor* File::find(std::string_view name) const noexcept { return names_.find(tensors_, name); }

std::string_view File::tokenizer_json() const {
  const std::string_view text = section(envelope_.vocab).text();
  if (!simdjson::validate_utf8(text)) fail(ErrorKind::Parse, "{}: the tokenizer section is not UTF-8", path());
  return text;
}

uint64_t File::directory_hash() const { return hash64(directory_bytes()); }

bool File::is_skill_file() const noexcept { return cmf::is_skill_file(envelope_, header_); }

}  // namespace cortiq::cmf
