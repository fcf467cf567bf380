#include "cli/command.h"

namespace cortiq::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"convert", "a Hugging Face directory or a GGUF file becomes one CMF file", run_convert},
      {"verify", "prove a file: structure, hashes, scales, signature", run_verify},
      {"run", "ask a model, or talk to it", run_run},
      {"batch", "answer many requests together", run_batch},
      {"info", "what a file holds", run_info},
      {"tensors", "list a file's tensors", run_tensors},
      {"dequant", "one tensor's values as f32", run_dequant},
      {"logits", "logits and hidden states as safetensors", run_logits},
      {"ppl", "perplexity of a text or of recorded answers", run_ppl},
      {"bench", "speed beside this machine's memory bandwidth", run_bench},
      {"tokenize", "ids of texts, and back", run_tokenize},
      {"template", "render a chat template", run_template},
      {"requant", "re-encode a file's tensors, from any dtype to any", run_requant},
      {"diff", "what differs between two models", run_diff},
      {"compact", "rewrite a file without dead bytes", run_compact},
      {"split", "a set of shards of one file", run_split},
      {"merge", "one file of a set of shards", run_merge},
      {"keygen", "a new key to sign files with", run_keygen},
      {"sign", "sign a file", run_sign},
      {"masks", "the task masks of a file", run_masks},
      {"mask", "add, measure, remove task masks", run_mask},
      {"skill", "list, add, select, measure, remove, bake, export, apply", run_skill},
      {"route", "which skill a prompt belongs to", run_route},
      {"defrag", "bake one mask into a smaller file", run_defrag},
      {"moe-mask", "add a mask that narrows routing to the experts of a task", run_moe_mask},
      {"moe-defrag", "drop the experts that a task never routes to", run_moe_defrag},
  };
  return table;
}

}  // namespace cortiq::cli
