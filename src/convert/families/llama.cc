#include "convert/family.h"

namespace cortiq::convert {
namespace {

void describe(Description& d) { tags_from_list(d); }

}  // namespace

void add_llama(std::vector<Family>& families) {
  families.push_back({
      .name = "llama",
      .model_types = {"llama"},
      .architectures = {"LlamaForCausalLM"},
      .defaults = R"({"max_position_embeddings": 2048})",
      .describe = describe,
  });
}

}  // namespace cortiq::convert
