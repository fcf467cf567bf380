#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model.h"

namespace cortiq::engine {

/// What a user asks for.
struct BindingSpec {
  std::string skill;                                  ///< "" or "none": the backbone
  std::vector<std::pair<std::string, double>> blend;  ///< skills and weights, normalised by their sum; excludes skill
  std::optional<std::string> task;                    ///< absent: the default rule (decisions 24); "none": dense
  /// Admitted experts, ascending, by physical layer; an empty inner list: no restriction there. Combined with the
  /// mask's. Empty: none.
  std::vector<std::vector<uint32_t>> experts;
};

/// Parses "id:w,id:w"; Usage if malformed.
std::vector<std::pair<std::string, double>> parse_blend(std::string_view text);

/// Admitted experts from routing counts (FORMAT_FACTS §12, ENGINE_FACTS §19): per layer the smallest set, by count
/// descending (ties: lower index), that covers `cover` of the total. Layers without counts: no restriction.
std::vector<std::vector<uint32_t>> admitted_by_cover(const std::vector<std::vector<uint64_t>>& counts, double cover);

/// The counts object {"layer": [count per expert]} of a statistics file; Parse if malformed. [layers][experts], empty
/// rows where the file says nothing.
std::vector<std::vector<uint64_t>> parse_expert_counts(const Json& json, const Model& model);

/// Replacements of some slots: one skill, or a blend. Made once, shared by bindings.
struct Overlay {
  std::string id;  ///< the skill's, or "" for a blend
  std::vector<std::pair<uint32_t, kernels::Matrix>> matrices;
  std::vector<std::pair<uint32_t, std::vector<float>>> vectors;
  std::vector<std::vector<float>> working;  ///< storage of blended matrices
  std::string identity;                     ///< content hashes of what it replaces
};

/// Which weights a sequence sees and which parts of them are alive: skill or blend, mask, expert sets. Immutable; a
/// Model keeps nothing of it. Resolving is one look-up.
class Binding {
 public:
  const kernels::Matrix& matrix(WeightRef ref) const noexcept { return *matrices_[ref.slot]; }
  const float* vector(VectorRef ref) const noexcept { return vectors_[ref.slot]; }

  /// Live neurons of a dense FFN in this visit, ascending; nullptr: all.
  const std::vector<uint32_t>* live(uint64_t visit) const noexcept {
    return live_.empty() || live_[visit].all ? nullptr : &live_[visit].indices;
  }
  /// One byte a head, 1 = alive, for physical layer `layer`; nullptr: all alive.
  const uint8_t* heads(uint64_t layer) const noexcept {
    return heads_.empty() || heads_[layer].empty() ? nullptr : heads_[layer].data();
  }
  bool open(uint64_t layer) const noexcept { return gates_.empty() || gates_[layer] != 0; }
  /// Experts that may be chosen, ascending; nullptr: all.
  const std::vector<uint32_t>* admitted(uint64_t layer) const noexcept {
    return experts_.empty() || experts_[layer].empty() ? nullptr : &experts_[layer];
  }

  const std::string& skill() const noexcept { return skill_; }  ///< "" for the backbone or a blend
  const std::string& task() const noexcept { return task_; }    ///< the mask that runs; "" when dense
  bool masked() const noexcept { return !live_.empty() || !heads_.empty() || !gates_.empty() || !experts_.empty(); }
  /// Equal for bindings that compute the same: content hashes, mask bits, blend weights. The key of every cache.
  const std::string& identity() const noexcept { return identity_; }
  /// Sentences for the user (an unmeasured mask, …).
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  friend class BindingBuilder;
  struct Live {
    bool all = true;
    std::vector<uint32_t> indices;
  };
  std::vector<const kernels::Matrix*> matrices_;
  std::vector<const float*> vectors_;
  std::shared_ptr<const Overlay> overlay_;
  std::vector<Live> live_;                      // [visits]
  std::vector<std::vector<uint8_t>> heads_;     // [layers]
  std::vector<uint8_t> gates_;                  // [layers]
  std::vector<std::vector<uint32_t>> experts_;  // [layers]
  std::string skill_, task_, identity_;
  std::vector<std::string> warnings_;
};

}  // namespace cortiq::engine
