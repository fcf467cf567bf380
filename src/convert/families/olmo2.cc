#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) {
  d.layout.norms = Layout::Norms::Post;
  d.layout.qk_norm = Layout::QkNorm::FullWidth;
}

}  // namespace

void add_olmo2(std::vector<Family>& families) {
  families.push_back({
      .name = "olmo2",
      .model_types = {"olmo2"},
      .architectures = {"Olmo2ForCausalLM"},
      .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048})",
      .describe = describe,
  });
}

}  // namespace cortiq::convert
