#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "cmf/file.h"

namespace cortiq::cmf {

/// "skill.{id}.{name}": the replacement of a backbone tensor by a skill (§9).
std::string skill_tensor_name(std::string_view id, std::string_view name);

struct SkillTensor {
  std::string_view id, name;
};

/// The ids of a registry, to find out whose a replacement is. Views into the header, which must outlive it.
class SkillIds {
 public:
  explicit SkillIds(const Header& header);
  /// The longest id that fits, since foreign ids may hold dots. Nothing for other tensors, and for replacements of
  /// skills that are not registered: nobody can select those.
  std::optional<SkillTensor> split(std::string_view tensor) const;

 private:
  std::unordered_set<std::string_view> ids_;
};

/// True for a partial tensor set that cannot be run (§9.1): feature bit 6, or a record bound to a base.
bool is_skill_file(const Envelope& envelope, const Header& header);

/// Every replacement of a registered skill has its backbone tensor, of the same shape; Parse, naming both, otherwise.
/// `find` looks a name up among all tensors of the model.
void check_skill_tensors(std::span<const Tensor> tensors, const Header& header, std::string_view what,
                         const std::function<const Tensor*(std::string_view)>& find);

/// The name among `tensors` with the smallest edit distance, empty if none is near. For error messages.
std::string nearest_name(std::span<const Tensor> tensors, std::string_view name);

}  // namespace cortiq::cmf
