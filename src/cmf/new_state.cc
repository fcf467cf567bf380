#include "cmf/new_state.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "cmf/directory.h"
#include "cmf/envelope.h"
#include "cmf/lossless_json.h"
#include "cmf/masks.h"
#include "cmf/skill_tensors.h"
#include "cmf/writer.h"

namespace cortiq::cmf {

NewState check_new_state(const std::string& target, const Json& header, std::string_view tokenizer, Bytes masks,
                         std::span<const Tensor> tensors) {
  NewState out;
  out.header_text = write_json(header);
  if (out.header_text.size() > kMaxHeaderBytes) {
    fail(ErrorKind::Bounds, "{}: a header of {} bytes, {} are allowed", target, out.header_text.size(),
         kMaxHeaderBytes);
  }
  out.header = parse_header(out.header_text, target);
  if (!valid_utf8(tokenizer)) fail(ErrorKind::Parse, "{}: the tokenizer is not UTF-8", target);
  const NameIndex names(tensors, [&](size_t, size_t second) {
    fail(ErrorKind::Parse, "{}: two tensors are called '{}'", target, printable(tensors[second].name));
  });
  if (!out.header.shard && !is_skill_file(Envelope(), out.header)) {
    check_skill_tensors(tensors, out.header, target, [&](std::string_view name) { return names.find(tensors, name); });
  }
  const bool loop_masks =
      !masks.empty() && has_visit_rows(parse_masks(masks, out.header.arch, true, target), out.header.arch);
  out.features = features_of(header, tensors, !masks.empty(), loop_masks);
  return out;
}

uint32_t features_of(const Json& header, std::span<const Tensor> tensors, bool has_masks, bool loop_masks) {
  uint32_t out = kTensorDir;
  if (has_masks) out |= kBinaryMasks;
  if (loop_masks) out |= kLoopMasks;
  for (const Tensor& tensor : tensors) {
    // Row 23: vbit_ro has its own dtype id and needs no bit.
    if (tensor.dtype == codec::Dtype::Vbit || tensor.dtype == codec::Dtype::Q8TwoField) out |= kQuant2f;
  }
  if (const auto skills = header.find("skills"); skills != header.end() && skills->is_array()) {
    for (const Json& record : *skills) {
      if (record.is_object() && record.contains("base_dir_hash") && !record["base_dir_hash"].is_null())
        out |= kSkillFile;
    }
  }
  return out;
}

}  // namespace cortiq::cmf
