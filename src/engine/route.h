#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/decoder.h"

namespace cortiq::engine {

/// φ (§9): the mean over all ids of the output of visit `phi_layer` with the backbone's weights, dense [hidden].
std::vector<float> phi(Decoder& decoder, std::span<const uint32_t> ids, uint64_t phi_layer);

/// E = max(‖r‖² − ‖Br‖², 0) / ‖φ‖², r = φ − mean (ENGINE_FACTS §10).
double energy(const cmf::Selection& selection, std::span<const float> phi);

/// The prompt in the forms that records ask for (Selection::prompt "chat" or raw); `--ids`: both the same.
struct RoutePrompt {
  std::vector<uint32_t> chat, raw;
};

struct Routing {
  struct Energy {
    std::string id;
    double value;
    uint64_t phi_layer;
  };
  std::vector<Energy> energies;       ///< in the file's order
  std::optional<std::string> choice;  ///< smallest energy; absent if no record can route
  bool novel = false;                 ///< E > 0.30, or as the header's calibration says
  std::vector<std::string> warnings;  ///< records that cannot route, and why
};
Routing route(Decoder& decoder, const RoutePrompt& prompt);

/// Weights of a soft blend: the two smallest energies, softmax(−E/temperature) (ENGINE_FACTS §10).
std::vector<std::pair<std::string, double>> blend_weights(const Routing& routing, double temperature = 0.4,
                                                          size_t most = 2);

}  // namespace cortiq::engine
