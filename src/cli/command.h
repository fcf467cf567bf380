#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::cli {

using Arguments = std::vector<std::string>;

/// A command: parse flags, call one function, print. The table in commands.cc is the only list of them.
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};
const std::vector<Command>& commands();

int run_batch(const Arguments&);
int run_bench(const Arguments&);
int run_compact(const Arguments&);
int run_convert(const Arguments&);
int run_defrag(const Arguments&);
int run_dequant(const Arguments&);
int run_diff(const Arguments&);
int run_info(const Arguments&);
int run_keygen(const Arguments&);
int run_logits(const Arguments&);
int run_mask(const Arguments&);
int run_masks(const Arguments&);
int run_merge(const Arguments&);
int run_moe_defrag(const Arguments&);
int run_moe_mask(const Arguments&);
int run_ppl(const Arguments&);
int run_requant(const Arguments&);
int run_route(const Arguments&);
int run_run(const Arguments&);
int run_sign(const Arguments&);
int run_skill(const Arguments&);
int run_split(const Arguments&);
int run_template(const Arguments&);
int run_tensors(const Arguments&);
int run_tokenize(const Arguments&);
int run_verify(const Arguments&);

}  // namespace cortiq::cli
