#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common.h"
#include "skills/defrag.h"
#include "skills/expert_cut.h"
#include "skills/registry.h"

namespace cortiq::cli {

int run_moe_defrag(const Arguments& arguments) {
  Common common;
  std::string path, stats, output;
  double cover = 0.95;
  Flags flags("moe-defrag", "Drop the experts that a task never routes to",
              {"cortiq moe-defrag moe.cmf --stats sql.json --cover 0.95 -o moe-sql.cmf"});
  flags.positional("file", path, "CMF file with experts")
      .option("--stats", stats, "routing counts {\"layer\":[count per expert]} (default: those of an earlier cut)")
      .option("--cover", cover, "share of the counts to keep (default 0.95)")
      .option("-o,--output", output, "file to write");
  common.declare_json(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  check_output(output, {path});
  const auto set = cmf::FileSet::open(path);
  const auto progress = common.progress();
  const auto report =
      skills::cut_experts(*set, skills::expert_stats(*set, stats), cover, output, *progress, interruption());
  if (common.json) {
    Json document = {{"output", output},
                     {"kept_per_layer", report.kept_per_layer},
                     {"dropped", report.dropped},
                     {"bytes_before", report.bytes_before},
                     {"bytes", report.bytes_after}};
    add_warnings(document, report.warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : report.warnings) warn(one);
  fmt::print("{}: {} experts dropped, {} per layer kept, {} from {}\n", output, report.dropped,
             fmt::join(report.kept_per_layer, " "), human_bytes(report.bytes_after), human_bytes(report.bytes_before));
  return 0;
}

int run_moe_mask(const Arguments& arguments) {
  Common common;
  skills::Target target;
  std::string stats, name;
  double cover = 0.95;
  Flags flags(
      "moe-mask", "Add a task mask that narrows routing to the experts a task uses",
      {"cortiq moe-mask moe.cmf --stats sql.json --cover 0.95 --name sql", "cortiq run moe.cmf --task sql -p …"});
  flags.positional("file", target.path, "CMF file with experts")
      .option("--stats", stats, "routing counts {\"layer\":[count per expert]}")
      .option("--cover", cover, "share of the counts to keep (default 0.95)")
      .option("--name", name, "name of the mask")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  common.declare_json(flags);
  if (!flags.parse(arguments)) return 0;
  skills::check_mask_name(name);
  if (!target.output.empty()) check_output(target.output, {target.path});
  cmf::Mask mask;
  std::vector<std::string> warnings;
  {
    const auto set = cmf::FileSet::open(target.path);
    mask = skills::expert_mask(*set, skills::expert_stats(*set, stats), cover, name, warnings);
  }
  const double sparsity = mask.sparsity;
  const auto report = skills::add_mask(target, std::move(mask), false);
  warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  if (common.json) {
    Json document = {
        {"file", target.output.empty() ? target.path : target.output}, {"name", name}, {"sparsity", sparsity}};
    add_warnings(document, warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  fmt::print("{}: mask '{}' closes {:.0f}% of the experts\n", target.output.empty() ? target.path : target.output,
             printable(name), 100 * sparsity);
  return 0;
}

int run_defrag(const Arguments& arguments) {
  Common common;
  std::string path, task, output;
  Flags flags("defrag", "Bake one mask into a smaller file: dead neurons are dropped",
              {"cortiq defrag model.cmf --task sql -o model-sql.cmf"});
  flags.positional("file", path, "CMF file")
      .option("--task", task, "mask to bake")
      .option("-o,--output", output, "file to write");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (task.empty()) fail(ErrorKind::Usage, "--task: name the mask to bake");
  check_output(output, {path});
  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  const auto report = skills::defrag(*cmf::FileSet::open(path), task, output, *pool, *progress, interruption());
  if (common.json) {
    Json document = {{"output", output},
                     {"kept_per_layer", report.kept_per_layer},
                     {"pruned_ratio", report.pruned_ratio},
                     {"bytes_before", report.bytes_before},
                     {"bytes", report.bytes_after}};
    add_warnings(document, report.warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : report.warnings) warn(one);
  fmt::print("{}: {:.1f}% of the neurons are gone, {} from {}\n", output, 100 * report.pruned_ratio,
             human_bytes(report.bytes_after), human_bytes(report.bytes_before));
  return 0;
}

}  // namespace cortiq::cli
