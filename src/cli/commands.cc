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
      {"route", "which skill a prompt belongs to", run_route},
  };
  return table;
}

}  // namespace cortiq::cli
