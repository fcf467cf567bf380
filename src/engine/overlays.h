#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "engine/binding.h"

namespace cortiq::engine {

/// Skills of a model that were bound before.
struct Model::Overlays {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Overlay>, std::less<>> skills;
};

/// The replacements of one skill: matrices as views, vectors decoded. Usage for an unknown id, Parse for a tensor that
/// the backbone lacks or has in another shape.
std::shared_ptr<const Overlay> skill_overlay(const Model& model, const std::string& id);

/// Σ w_i·T_i in f32 over every tensor that at least one skill replaces (ENGINE_FACTS §10).
std::shared_ptr<const Overlay> blend_overlay(const Model& model, std::span<const std::pair<std::string, double>> parts);

}  // namespace cortiq::engine
