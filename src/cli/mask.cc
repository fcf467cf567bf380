#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/skill_commands.h"
#include "cmf/lossless_json.h"
#include "cmf/mask_edit.h"
#include "convert/npy.h"
#include "skills/registry.h"

namespace cortiq::cli {
namespace {

uint64_t active(const std::vector<uint8_t>& row) {
  return static_cast<uint64_t>(std::count(row.begin(), row.end(), 1));
}

uint64_t active(const std::vector<std::vector<uint8_t>>& rows) {
  uint64_t sum = 0;
  for (const auto& row : rows) sum += active(row);
  return sum;
}

uint64_t bits(const std::vector<std::vector<uint8_t>>& rows) {
  uint64_t sum = 0;
  for (const auto& row : rows) sum += row.size();
  return sum;
}

std::string share(const std::vector<std::vector<uint8_t>>& rows) {
  return rows.empty() ? "-" : fmt::format("{}/{}", with_commas(active(rows)), with_commas(bits(rows)));
}

std::string where(const skills::Target& target) { return target.output.empty() ? target.path : target.output; }

// An array of rows as the mask tools take it; the array must stay while they do.
cmf::MaskRows rows_of(const convert::Npy& array, const std::string& path) {
  if (array.shape.size() != 2)
    fail(ErrorKind::Usage, "{}: expected two dimensions, it has {}", path, array.shape.size());
  return {array.shape[0], array.shape[1], array.values};
}

int mask_add(const Arguments& arguments) {
  Common common;
  skills::Target target;
  std::string name, description, priority = "Normal";
  std::optional<std::string> rows, ffn, heads;
  bool make_default = false;
  Flags flags("mask add", "Append a task mask: which neurons, heads, layers and experts are active",
              {"cortiq mask add model.cmf --name sql --ffn keep.npy --heads heads.npy",
               "cortiq mask add model.cmf --name small --rows mask.json"});
  flags.positional("file", target.path, "CMF file")
      .option("--name", name, "task name")
      .option("--rows", rows, "JSON: ffn_inactive, heads_inactive, gates_closed, experts_routable, or blob_hex")
      .option("--ffn", ffn, ".npy, bool [layers, neurons], true = active")
      .option("--heads", heads, ".npy, bool [layers, heads], true = active")
      .option("--description", description, "for people")
      .option("--priority", priority, "Fallback, Normal (default) or Primary")
      .flag("--default", make_default, "make it the file's default task")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  common.declare_json(flags);
  if (!flags.parse(arguments)) return 0;
  skills::check_mask_name(name);
  if (priority != "Fallback" && priority != "Normal" && priority != "Primary") {
    fail(ErrorKind::Usage, "--priority {}: use Fallback, Normal or Primary", printable(priority, 40));
  }
  if (rows.has_value() == (ffn.has_value() || heads.has_value()))
    fail(ErrorKind::Usage, "give --rows, or --ffn and --heads");
  if (!target.output.empty()) check_output(target.output, {target.path});
  cmf::Mask mask;
  {
    const auto set = cmf::FileSet::open(target.path);
    const cmf::Arch& arch = set->header().arch;
    if (rows) {
      mask = cmf::mask_from_json(parse_json(FileSystem::real().read_all(*rows), *rows), arch, *rows);
    } else {
      convert::Npy ffn_array, head_array;
      cmf::MaskRows ffn_rows, head_rows;
      if (ffn) ffn_rows = rows_of(ffn_array = convert::read_npy(*ffn), *ffn);
      if (heads) head_rows = rows_of(head_array = convert::read_npy(*heads), *heads);
      mask = cmf::mask_from_rows(ffn ? &ffn_rows : nullptr, heads ? &head_rows : nullptr, arch, ffn ? *ffn : *heads);
    }
  }
  mask.name = name;
  mask.description = description;
  mask.priority = priority;
  mask.sparsity = cmf::mask_sparsity(mask);
  std::vector<std::string> warnings = cmf::mask_warnings(mask);
  const double sparsity = mask.sparsity;
  const auto report = skills::add_mask(target, std::move(mask), make_default);
  warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  if (common.json) {
    Json document = {{"file", where(target)}, {"name", name}, {"sparsity", sparsity}};
    add_warnings(document, warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  fmt::print("{}: mask '{}' added, {:.1f}% inactive\n", where(target), printable(name), 100 * sparsity);
  return 0;
}

int mask_remove(const Arguments& arguments) {
  skills::Target target;
  std::string name;
  Flags flags("mask remove", "Take a mask out of a file", {"cortiq mask remove model.cmf --name sql"});
  flags.positional("file", target.path, "CMF file")
      .option("--name", name, "mask")
      .option("-o,--output", target.output, "file to write (default: in place)");
  if (!flags.parse(arguments)) return 0;
  if (!target.output.empty()) check_output(target.output, {target.path});
  for (const auto& one : skills::remove_mask(target, name).warnings) warn(one);
  fmt::print("{}: mask '{}' is gone\n", where(target), printable(name));
  return 0;
}

}  // namespace

int run_masks(const Arguments& arguments) {
  Common common;
  std::string path;
  Flags flags("masks", "The task masks of a file", {"cortiq masks model.cmf", "cortiq masks model.cmf --json"});
  flags.positional("file", path, "CMF file");
  common.declare_json(flags);
  if (!flags.parse(arguments)) return 0;
  const auto file = cmf::File::open(path);
  Json rows = Json::array();
  Table table({"mask", "task id", "priority", "inactive", "neurons", "heads", "experts", "quality"});
  std::vector<std::string> warnings;
  for (const cmf::Mask& mask : file->masks().masks) {
    if (mask.tail_bits)
      warnings.push_back(
          fmt::format("mask '{}' has bits set beyond its dimensions; they are ignored", printable(mask.name)));
    for (const auto& one : cmf::mask_warnings(mask)) warnings.push_back(one);
    Json ffn = Json::array(), heads = Json::array(), experts = Json::array();
    for (const auto& row : mask.ffn) ffn.push_back(active(row));
    for (const auto& row : mask.heads) heads.push_back(active(row));
    for (const auto& row : mask.experts) experts.push_back(active(row));
    const Json quality = mask.quality.empty() ? Json(nullptr) : cmf::parse_lossless_json(mask.quality, "quality");
    rows.push_back({{"name", mask.name},
                    {"task_id", mask.task_id},
                    {"description", mask.description.empty() ? Json(nullptr) : Json(mask.description)},
                    {"priority", mask.priority},
                    {"sparsity", mask.sparsity},
                    {"quality", quality},
                    {"per_visit", mask.per_visit},
                    {"has_expert_fields", mask.has_expert_fields},
                    {"ffn_active", ffn},
                    {"heads_active", heads},
                    {"gates_open", active(mask.gates)},
                    {"experts_routable", experts},
                    {"tail_bits", mask.tail_bits}});
    table.add({printable(mask.name), std::to_string(mask.task_id), mask.priority,
               fmt::format("{:.1f}%", 100 * mask.sparsity), share(mask.ffn), share(mask.heads), share(mask.experts),
               quality.is_null() ? "not measured" : printable(quality.dump(), 60)});
  }
  if (file->envelope().index.length != 0)
    warnings.push_back("the file holds a sparse index, which is deprecated and never used");
  if (common.json) {
    Json document = {{"default_task", file->masks().masks.empty() ? Json(nullptr) : Json(file->masks().default_task)},
                     {"masks", rows}};
    add_warnings(document, warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  if (rows.empty()) {
    fmt::print("{}: no masks\n", path);
  } else {
    table.print(stdout);
    const std::string& task = file->masks().default_task;
    fmt::print("default task: {}\n", task.empty() ? "none" : printable(task));
  }
  return 0;
}

int run_mask(const Arguments& arguments) {
  return run_subcommand("mask",
                        {{"add", "append a task mask", mask_add},
                         {"measure", "write its quality contract: perplexity dense and masked", mask_measure},
                         {"remove", "take a mask out", mask_remove}},
                        arguments);
}

}  // namespace cortiq::cli
