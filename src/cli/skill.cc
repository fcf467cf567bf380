#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/session.h"
#include "cli/skill_commands.h"
#include "cmf/lossless_json.h"
#include "skills/bake.h"
#include "skills/lifecycle.h"
#include "skills/registry.h"
#include "skills/select.h"

namespace cortiq::cli {
namespace {

void report_warnings(const std::vector<std::string>& warnings) {
  for (const auto& one : warnings) warn(one);
}

std::string where(const skills::Target& target) { return target.output.empty() ? target.path : target.output; }

int skill_add(const Arguments& arguments) {
  Common common;
  skills::Target target;
  std::string id, name;
  std::optional<std::string> tensors, donor, base, lora, selection, quant;
  std::optional<double> min_delta;
  Flags flags(
      "skill add",
      "Append a skill: full tensors that replace the backbone's while it is active (an id that is there is replaced)",
      {"cortiq skill add base.cmf --id sql --donor ./sql-finetune",
       "cortiq skill add base.cmf --id style --lora ./adapter",
       "cortiq skill add base.cmf --id x --tensors x.safetensors --quant q8 -o with-x.cmf"});
  flags.positional("file", target.path, "CMF file")
      .option("--id", id, "letters, digits, _ and -")
      .option("--name", name, "a name for people")
      .option("--donor", donor, "HF directory or CMF file of the same architecture: what differs becomes the skill")
      .option("--base", base, "checkpoint the backbone was made from, compared with the donor directly")
      .option("--min-delta", min_delta, "relative change below which a tensor counts as unchanged")
      .option("--tensors", tensors, "safetensors with replacements under the backbone's names")
      .option("--lora", lora, "PEFT adapter directory, merged into full tensors")
      .option("--selection", selection, "JSON file with the selection object (§9)")
      .option("--quant", quant, "dtype of the skill's tensors (default: each as the backbone's)")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  skills::check_skill_id(id);
  const int sources = (tensors ? 1 : 0) + (donor ? 1 : 0) + (lora ? 1 : 0);
  if (sources > 1) fail(ErrorKind::Usage, "give one of --donor, --tensors and --lora");
  if (sources == 0 && !selection) fail(ErrorKind::Usage, "give --donor, --tensors or --lora, or a --selection alone");
  if (!target.output.empty()) check_output(target.output, {target.path});
  if (min_delta && !(*min_delta >= 0 && *min_delta < 1e9))
    fail(ErrorKind::Usage, "--min-delta {}: expected 0 or more", *min_delta);
  std::optional<codec::Quant> dtype;
  if (quant) dtype = codec::parse_quant(*quant);
  std::optional<Json> chosen;
  if (selection) chosen = parse_json(FileSystem::real().read_all(*selection), *selection);

  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  std::optional<skills::ReplacementSet> set;
  Json provenance;
  {
    const auto backbone = cmf::FileSet::open(target.path);
    if (donor) {
      set = skills::from_donor(*backbone, *donor, {dtype, min_delta, base.value_or("")}, *pool, *progress,
                               interruption());
      provenance = {{"donor", file_name_of(*donor)}};
    } else if (tensors) {
      set = skills::from_safetensors(*backbone, *tensors, dtype, *pool, *progress, interruption());
      provenance = {{"tensors_from", file_name_of(*tensors)}};
    } else if (lora) {
      set = skills::from_lora(*backbone, *lora, dtype, base.value_or(""), *pool, *progress, interruption());
      provenance = {{"lora", file_name_of(*lora)}};
    }
  }
  const skills::RegistryReport report =
      skills::add_skill(target, id, name, set ? &*set : nullptr, chosen, provenance, *progress, interruption());
  progress->end();
  if (common.json) {
    Json document = {{"file", where(target)},           {"id", id},
                     {"tensors", report.tensors},       {"bytes", report.bytes},
                     {"file_bytes", report.file_bytes}, {"replaced", report.replaced}};
    add_warnings(document, report.warnings);
    print_json(document);
    return 0;
  }
  report_warnings(report.warnings);
  fmt::print("{}: skill '{}' {} with {} tensors, {}; the file has {}\n", where(target), id,
             report.replaced ? "replaced" : "added", report.tensors, human_bytes(report.bytes),
             human_bytes(report.file_bytes));
  return 0;
}

int skill_select(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  skills::Target target;
  std::string id, prompts;
  skills::SelectOptions options;
  Flags flags("skill select", "Learn from example prompts when a skill is meant",
              {"cortiq skill select swarm.cmf --id sql --prompts sql.jsonl",
               "cortiq skill select swarm.cmf --id general --prompts chat.jsonl --rank 4"});
  flags.positional("file", target.path, "CMF file")
      .option("--id", id, "skill; an id without tensors (say general) means the backbone")
      .option("--prompts", prompts, "example conversations {\"messages\":[…]} or {\"prompt\":…}, one a line")
      .option("--phi-layer", options.phi_layer, "layer whose output is looked at (default: two thirds up)")
      .option("--rank", options.rank, "directions beside the mean, at most 8 (default 4)")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  skills::check_skill_id(id);
  if (options.rank > 8) fail(ErrorKind::Usage, "--rank {}: at most 8", options.rank);
  if (prompts.empty()) fail(ErrorKind::Usage, "--prompts: name a file of examples");
  if (!target.output.empty()) check_output(target.output, {target.path, prompts});
  const auto rows = skills::read_rows(prompts);
  model_flags.path = target.path;
  model_flags.exact = true;
  model_flags.task = "none";
  const auto progress = common.progress();
  cmf::Selection selection;
  {
    Session session(model_flags, common);
    selection = skills::select_from_prompts(session.decoder(), rows, options, *progress, interruption());
  }
  const auto report = skills::set_record_key(target, id, "selection", skills::selection_json(selection), true);
  progress->end();
  if (common.json) {
    Json document = {{"file", where(target)},
                     {"id", id},
                     {"examples", rows.size()},
                     {"phi_layer", selection.phi_layer},
                     {"rank", selection.rank}};
    add_warnings(document, report.warnings);
    print_json(document);
    return 0;
  }
  report_warnings(report.warnings);
  fmt::print("{}: skill '{}' is chosen by layer {}, rank {}, from {} examples\n", where(target), id,
             selection.phi_layer, selection.rank, rows.size());
  return 0;
}

int skill_list(const Arguments& arguments) {
  Common common;
  std::string path;
  Flags flags("skill list", "The skills of a file", {"cortiq skill list swarm.cmf"});
  flags.positional("file", path, "CMF file");
  common.declare_json(flags);
  if (!flags.parse(arguments)) return 0;
  const auto set = cmf::FileSet::open(path);
  Json rows = Json::array();
  Table table({"skill", "tensors", "bytes", "layers", "routing", "quality"});
  for (const auto& skill : set->header().skills) {
    uint64_t tensors = 0, bytes = 0;
    for (const auto& tensor : set->tensors()) {
      if (!tensor.name.starts_with("skill." + skill.id + ".")) continue;
      ++tensors;
      bytes += tensor.nbytes;
    }
    const Json record = cmf::parse_lossless_json(skill.json, "skills");
    const Json quality = record.contains("quality") ? record["quality"] : Json(nullptr);
    rows.push_back({{"id", skill.id},
                    {"name", skill.name},
                    {"tensors", tensors},
                    {"bytes", bytes},
                    {"layers", skill.layers},
                    {"routable", skill.selection && skill.selection->unusable.empty()},
                    {"quality", quality}});
    std::string layers = fmt::format("{}", fmt::join(skill.layers, ","));
    if (layers.size() > 24) layers = fmt::format("{} layers", skill.layers.size());
    table.add({printable(skill.id), std::to_string(tensors), with_commas(bytes), layers,
               skill.selection
                   ? (skill.selection->unusable.empty()
                          ? fmt::format("layer {}, rank {}", skill.selection->phi_layer, skill.selection->rank)
                          : "unusable")
                   : "no",
               quality.is_null() ? "not measured" : printable(quality.dump(), 70)});
  }
  if (common.json) {
    Json document = {{"skills", rows}};
    add_warnings(document, {});
    print_json(document);
  } else if (rows.empty()) {
    fmt::print("{}: no skills\n", path);
  } else {
    table.print(stdout);
  }
  return 0;
}

int skill_remove(const Arguments& arguments) {
  skills::Target target;
  std::string id;
  Flags flags("skill remove", "Take a skill out of a file",
              {"cortiq skill remove swarm.cmf --id sql && cortiq compact swarm.cmf --in-place"});
  flags.positional("file", target.path, "CMF file")
      .option("--id", id, "skill")
      .option("-o,--output", target.output, "file to write (default: in place)");
  if (!flags.parse(arguments)) return 0;
  if (!target.output.empty()) check_output(target.output, {target.path});
  const auto report = skills::remove_skill(target, id);
  report_warnings(report.warnings);
  fmt::print("{}: skill '{}' and its {} tensors are gone{}\n", where(target), id, report.tensors,
             target.output.empty() ? "; cortiq compact frees their space" : "");
  return 0;
}

int skill_export(const Arguments& arguments) {
  std::string path, base, id, name, output;
  Common common;
  Flags flags("skill export", "Cut a standalone skill file out of a specialist",
              {"cortiq skill export specialist.cmf --base base.cmf --id gfx -o gfx.skill.cmf"});
  flags.positional("file", path, "the specialist")
      .option("--base", base, "the file it was made from")
      .option("--id", id, "letters, digits, _ and -")
      .option("--name", name, "a name for people")
      .option("-o,--output", output, "file to write");
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  skills::check_skill_id(id);
  if (base.empty()) fail(ErrorKind::Usage, "--base: name the file that the specialist was made from");
  check_output(output, {path, base});
  const auto progress = common.progress();
  const auto report = skills::export_skill(*cmf::FileSet::open(path), *cmf::FileSet::open(base), id, name, output,
                                           *progress, interruption());
  report_warnings(report.warnings);
  fmt::print("{}: skill '{}', {} tensors, {}; cortiq skill apply {} {} -o OUT puts it back\n", output, id,
             report.tensors, human_bytes(report.bytes), base, output);
  return 0;
}

int skill_apply(const Arguments& arguments) {
  std::string base, skill, output;
  bool force = false;
  Common common;
  Flags flags("skill apply", "Base and standalone skill become the specialist",
              {"cortiq skill apply base.cmf gfx.skill.cmf -o specialist.cmf"});
  flags.positional("base", base, "the base it was cut against")
      .positional("skill", skill, "the skill file")
      .option("-o,--output", output, "file to write")
      .flag("--force", force, "accept another base, and take the skill's masks where names collide");
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  check_output(output, {base, skill});
  const auto progress = common.progress();
  const auto report =
      skills::apply_skill(*cmf::FileSet::open(base), *cmf::File::open(skill), force, output, *progress, interruption());
  report_warnings(report.warnings);
  fmt::print("{}: {} tensors replaced\n", output, report.tensors);
  return 0;
}

int skill_bake(const Arguments& arguments) {
  std::string base, output;
  skills::BakeOptions options;
  std::optional<std::string> quant;
  Common common;
  Flags flags("skill bake", "Make a specialist: a base with other tensors and without dead neurons",
              {"cortiq skill bake base.cmf --donor ./finetune -o specialist.cmf",
               "cortiq skill bake base.cmf --overlays ./pruned -o specialist.cmf"});
  flags.positional("file", base, "the base")
      .option("--donor", options.donor, "HF directory or CMF file: what differs is taken over")
      .option("--overlays", options.overlays, "folder with tensors/NAME.npy and ffn_keep.npy")
      .option("--keep", options.keep, ".npy of live neurons, bool [layers, intermediate]")
      .option("--quant", quant, "dtype of a donor's tensors (default: each as the base's)")
      .option("--min-delta", options.donor_options.min_delta,
              "relative change below which a donor's tensor counts as unchanged")
      .option("--base", options.donor_options.base,
              "checkpoint the base was made from, compared with the donor directly")
      .option("-o,--output", output, "file to write");
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (quant) options.donor_options.quant = codec::parse_quant(*quant);
  check_output(output, {base});
  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  const auto report = skills::bake(*cmf::FileSet::open(base), options, output, *pool, *progress, interruption());
  report_warnings(report.warnings);
  fmt::print("{}: {} tensors replaced, {} layers cut, {}\n", output, report.replaced, report.cut_layers,
             human_bytes(report.bytes));
  return 0;
}

}  // namespace

int run_skill(const Arguments& arguments) {
  return run_subcommand("skill",
                        {{"list", "the skills of a file", skill_list},
                         {"add", "append a skill from a donor, tensors or a LoRA adapter", skill_add},
                         {"select", "learn from examples when a skill is meant", skill_select},
                         {"measure", "write the quality contract: perplexity with and without", skill_measure},
                         {"remove", "take a skill out", skill_remove},
                         {"bake", "make a specialist", skill_bake},
                         {"export", "cut a standalone skill out of a specialist", skill_export},
                         {"apply", "base and standalone skill become the specialist", skill_apply}},
                        arguments);
}

}  // namespace cortiq::cli
