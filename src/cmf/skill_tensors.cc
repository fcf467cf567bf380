#include "cmf/skill_tensors.h"

#include <algorithm>

#include "base/nearest.h"

namespace cortiq::cmf {
namespace {

constexpr std::string_view kPrefix = "skill.";

}  // namespace

std::string skill_tensor_name(std::string_view id, std::string_view name) {
  return fmt::format("{}{}.{}", kPrefix, id, name);
}

SkillIds::SkillIds(const Header& header) {
  for (const SkillRecord& record : header.skills) ids_.insert(record.id);
}

std::optional<SkillTensor> SkillIds::split(std::string_view tensor) const {
  if (ids_.empty() || !tensor.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = tensor.substr(kPrefix.size());
  std::optional<SkillTensor> out;
  for (size_t dot = rest.find('.'); dot <= kMaxSkillId && dot + 1 < rest.size(); dot = rest.find('.', dot + 1)) {
    const auto id = ids_.find(rest.substr(0, dot));
    if (id != ids_.end()) out = SkillTensor{*id, rest.substr(dot + 1)};
  }
  return out;
}

bool is_skill_file(const Envelope& envelope, const Header& header) {
  return (envelope.features & kSkillFile) != 0 ||
         std::any_of(header.skills.begin(), header.skills.end(),
                     [](const auto& one) { return !one.base_dir_hash.empty(); });
}

void check_skill_tensors(std::span<const Tensor> tensors, const Header& header, std::string_view what,
                         const std::function<const Tensor*(std::string_view)>& find) {
  const SkillIds ids(header);
  for (const Tensor& tensor : tensors) {
    const auto skill = ids.split(tensor.name);
    if (!skill) continue;
    const Tensor* backbone = find(skill->name);
    if (!backbone) {
      const std::string nearest = nearest_name(tensors, skill->name);
      fail(ErrorKind::Parse, "{}: tensor '{}' of skill '{}' replaces '{}', which is not in the file{}", what,
           printable(tensor.name), printable(skill->id, 60), printable(skill->name),
           nearest.empty() ? "" : fmt::format("; the nearest name is '{}'", printable(nearest)));
    }
    if (backbone->shape != tensor.shape) {
      fail(ErrorKind::Parse, "{}: tensor '{}' of skill '{}' has shape {} and cannot replace '{}' of shape {}", what,
           printable(tensor.name), printable(skill->id, 60), tensor.shape.text(), printable(skill->name),
           backbone->shape.text());
    }
  }
}

std::string nearest_name(std::span<const Tensor> tensors, std::string_view name) {
  constexpr size_t kLongest = 256, kMostNames = 100'000;
  std::vector<std::string_view> names;
  for (const Tensor& tensor : tensors.first(std::min(tensors.size(), kMostNames))) {
    if (tensor.name.size() <= kLongest && !tensor.name.starts_with(kPrefix)) names.push_back(tensor.name);
  }
  return std::string(nearest(name, names, name.size() / 2 + 1));
}

}  // namespace cortiq::cmf
