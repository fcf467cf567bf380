#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmf/arch.h"
#include "convert/config.h"

namespace cortiq::convert {

/// How a family reads its rotary keys, beyond what all do alike.
struct RopeRules {
  std::vector<std::string_view> longrope_names{"longrope"};  ///< phi3: "su" and "yarn" too (ENGINE_FACTS §5.5)
  bool sections = false;             ///< mrope_section is allowed: for text it changes nothing (§5.6)
  bool two_profiles = false;         ///< sliding layers have their own base (gemma3, laguna)
  double unrotated_full_layers = 0;  ///< > 0: divides the angles of full layers away; sliding ones have the base
  bool original_at_top = false;      ///< original_max_position_embeddings stands at the top level (phi3)
};

/// Fills rope_theta, partial_rotary_factor, yarn, rope_freq_factors, rope_local_base_freq,
/// local_partial_rotary_factor and, for longrope, max_position_embeddings from rope_theta, rope_scaling and
/// rope_parameters in all their spellings (§5.3–5.6, cases rows 37–39). What the header cannot say is refused by name.
void resolve_rope(const Config& config, const RopeRules& rules, cmf::Arch& arch, std::vector<std::string>& notes,
                  std::vector<std::string>& warnings);

}  // namespace cortiq::convert
