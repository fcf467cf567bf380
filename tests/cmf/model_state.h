#pragma once
#include <string>

#include "base/hash64.h"
#include "cmf/lossless_json.h"
#include "cmf/shard_header.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {

/// Everything a model says, independent of where it stands: two files with the same text are the same model. Fails the
/// test if the file does not verify; "absent" if it is not there.
inline std::string model_state(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) return "absent";
  const Report report = verify_in(files, path, {"", true});
  // The signature may be of another state of the file, which verify is right to report.
  for (const Problem& one : report.problems) {
    if (one.where != "signature") return "broken: " + text_of(report);
  }
  const auto set = FileSet::open(path, files);
  Json header = without_shard(*set->header().json);
  header.erase("section_hashes");
  std::string out = write_json(header) + "\n";
  for (const Tensor& tensor : set->tensors()) {
    out += fmt::format("{} {} {} {} {}\n", tensor.name, codec::name(tensor.dtype), tensor.shape.text(), tensor.nbytes,
                       tensor.hash);
  }
  for (const Mask& mask : set->first().masks().masks) out += "mask " + mask.name + "\n";
  return out + hex64(hash64(set->first().vocab_bytes()));
}

}  // namespace cortiq::cmf
