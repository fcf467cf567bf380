#include "convert/family.h"

namespace cortiq::convert {
namespace {

// The stack is applied several times; the final norm stands between passes unless it is skipped (ENGINE_FACTS §11).
void describe(Description& d) {
  const std::vector<double> weights = d.config.numbers("loop_loss_weights");
  d.arch.num_loops = weights.empty() ? d.config.count("num_loops", 1) : weights.size() + 1;
  d.arch.loop_final_norm = d.arch.num_loops > 1 && !d.config.flag("skip_loop_final_norm");
}

}  // namespace

void add_nanbeige(std::vector<Family>& families) {
  families.push_back({
      .name = "nanbeige",
      .model_types = {"nanbeige"},
      .architectures = {"NanbeigeForCausalLM"},
      .handles = {"num_loops", "loop_loss_weights"},
      .describe = describe,
  });
}

}  // namespace cortiq::convert
