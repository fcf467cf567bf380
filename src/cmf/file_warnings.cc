#include "cmf/file_warnings.h"

#include <algorithm>

#include "cmf/envelope.h"
#include "cmf/masks.h"
#include "cmf/skill_tensors.h"

namespace cortiq::cmf {
namespace {

bool has_dtype(const File& file, codec::Dtype dtype) {
  return std::any_of(file.tensors().begin(), file.tensors().end(),
                     [&](const Tensor& one) { return one.dtype == dtype; });
}

bool bound_to_a_base(const Header& header) {
  return std::any_of(header.skills.begin(), header.skills.end(),
                     [](const auto& one) { return !one.base_dir_hash.empty(); });
}

// Row 22: readers do not hold the bits against the content; here somebody says so.
void check_features(const File& file, std::vector<std::string>& out) {
  const uint32_t features = file.envelope().features;
  const auto says = [&](uint32_t bit, bool content, std::string_view what) {
    const bool set = (features & bit) != 0;
    if (set == content) return;
    out.push_back(fmt::format("{}: the feature bit {} is {} although there {} {}", file.path(),
                              feature_names(bit).front(), set ? "set" : "not set", content ? "are" : "are no", what));
  };
  says(kTensorDir, true, "tensors in a directory");
  says(kBinaryMasks, file.envelope().masks.length != 0, "masks");
  says(kQuant2f, has_dtype(file, codec::Dtype::Vbit) || has_dtype(file, codec::Dtype::Q8TwoField),
       "vbit or q8_2f tensors");
  says(kSkillFile, bound_to_a_base(file.header()), "skills bound to a base");
  if ((features & kLoopMasks) != 0 && file.envelope().masks.length == 0) {
    out.push_back(fmt::format("{}: the feature bit LOOP_MASKS is set although there are no masks", file.path()));
  }
}

void check_masks(const File& file, std::vector<std::string>& out) {
  const Masks& masks = file.masks();
  for (const Mask& mask : masks.masks) {
    if (mask.tail_bits) {
      out.push_back(fmt::format("{}: mask '{}' has bits set beyond the end of a row; they are ignored", file.path(),
                                printable(mask.name, 60)));
    }
  }
  const bool known = std::any_of(masks.masks.begin(), masks.masks.end(),
                                 [&](const Mask& mask) { return mask.name == masks.default_task; });
  if (!masks.masks.empty() && !known && !masks.default_task.empty() && masks.default_task != kDefaultTask) {
    out.push_back(
        fmt::format("{}: default_task '{}' is the name of no mask", file.path(), printable(masks.default_task, 60)));
  }
}

void check_ids(const File& file, std::vector<std::string>& out) {
  if (!file.header().chat) return;
  const uint64_t vocabulary = file.header().arch.vocab_size;
  for (const uint32_t id : file.header().chat->eos_token_ids) {
    if (id >= vocabulary) {
      out.push_back(fmt::format("{}: the end id {} is outside the vocabulary of {} ids and never stops an answer",
                                file.path(), id, vocabulary));
    }
  }
}

void check_skills(const File& file, std::vector<std::string>& out) {
  const SkillIds ids(file.header());
  uint64_t orphans = 0;
  std::unordered_set<std::string_view> with_tensors;
  for (const Tensor& tensor : file.tensors()) {
    const auto skill = ids.split(tensor.name);
    if (skill) {
      with_tensors.insert(skill->id);
    } else if (tensor.name.starts_with("skill.")) {
      ++orphans;
    }
  }
  for (const SkillRecord& record : file.header().skills) {
    const std::string shown = printable(record.id, 60);
    if (record.selection && !record.selection->unusable.empty()) {
      out.push_back(
          fmt::format("{}: skill '{}' cannot be routed to: {}", file.path(), shown, record.selection->unusable));
    }
    if (!record.selection && record.base_dir_hash.empty() && !file.header().shard &&
        !with_tensors.contains(record.id)) {
      out.push_back(fmt::format("{}: skill '{}' has neither tensors nor a selection", file.path(), shown));
    }
  }
  if (orphans != 0 && !file.header().shard) {
    out.push_back(fmt::format("{}: {} tensors belong to skills that are not registered", file.path(), orphans));
  }
}

}  // namespace

Unprotected find_unprotected(const File& file) {
  const Envelope& envelope = file.envelope();
  std::vector<Section> covered;
  for (const NamedSection& one : sections_of(envelope)) {
    if (one.name != "data" && one.section.length != 0) covered.push_back(one.section);
  }
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.nbytes != 0) covered.push_back({envelope.data.offset + tensor.offset, tensor.nbytes});
  }
  covered.push_back({kEnvelopeBytes, 0});
  covered.push_back({file.size(), 0});
  std::sort(covered.begin(), covered.end(), [](const Section& a, const Section& b) { return a.offset < b.offset; });

  Unprotected out;
  out.bytes = 0x70;
  uint64_t at = kEnvelopeBytes;
  const Bytes bytes = file.mapping().bytes();
  for (const Section& section : covered) {
    if (section.offset > at) {
      const Bytes gap = bytes.slice(at, section.offset - at);
      out.bytes += gap.size();
      out.not_zero +=
          static_cast<uint64_t>(std::count_if(gap.span().begin(), gap.span().end(), [](uint8_t b) { return b != 0; }));
    }
    at = std::max(at, section.offset + section.length);
  }
  return out;
}

std::vector<std::string> file_warnings(const File& file, const Unprotected& unprotected) {
  std::vector<std::string> out;
  const Envelope& envelope = file.envelope();
  if (envelope.flags != 0)
    out.push_back(fmt::format("{}: the reserved flags are {:#x}; they are ignored", file.path(), envelope.flags));
  for (const NamedSection& one : sections_of(envelope)) {
    if (one.section.length == 0 && one.section.offset != 0) {
      out.push_back(
          fmt::format("{}: the absent {} section has the offset {}", file.path(), one.name, one.section.offset));
    }
  }
  check_features(file, out);
  if (!file.header().arch.norm_style_given) {
    out.push_back(fmt::format("{}: arch.norm_style is missing; \"qwen\" is assumed, which is wrong for Gemma's norms",
                              file.path()));
  }
  uint64_t data_end = 0;
  for (const Tensor& tensor : file.tensors()) data_end = std::max(data_end, tensor.offset + tensor.nbytes);
  if (data_end != envelope.data.length) {
    out.push_back(fmt::format("{}: the data section has {} bytes, its last tensor ends at {}", file.path(),
                              envelope.data.length, data_end));
  }
  check_masks(file, out);
  check_skills(file, out);
  check_ids(file, out);
  if (envelope.index.length != 0) {
    out.push_back(fmt::format("{}: has a sparse index, which is deprecated and not used", file.path()));
  }
  if (unprotected.not_zero != 0) {
    out.push_back(
        fmt::format("{}: {} bytes outside all sections and tensors are not zero: dead parts of an earlier state, or "
                    "damage where nothing is read; compact removes them",
                    file.path(), unprotected.not_zero));
  }
  return out;
}

}  // namespace cortiq::cmf
