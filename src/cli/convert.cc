#include "convert/convert.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common.h"
#include "convert/requant.h"

namespace cortiq::cli {
namespace {

Json plan_row(const convert::PlannedTensor& tensor, codec::Dtype dtype, std::optional<uint64_t> nbytes) {
  Json shape = Json::array();
  for (uint8_t i = 0; i < tensor.shape.rank; ++i) shape.push_back(tensor.shape.dims[i]);
  Json row = {{"name", tensor.name}, {"source", tensor.source}, {"dtype", codec::name(dtype)}, {"shape", shape}};
  row["nbytes"] = nbytes ? Json(*nbytes) : Json(nullptr);
  row["note"] = tensor.note;
  return row;
}

void print_plan(const convert::Plan& plan) {
  const Style style = style_of(stdout);
  fmt::print("{}family{}  {}\n{}arch{}\n", style.bold, style.reset, plan.family, style.bold, style.reset);
  const Json arch = cmf::write_arch(plan.arch);
  for (const auto& [key, value] : arch.items()) fmt::print("  {:<32} {}\n", key, printable(value.dump(), 100));
  fmt::print("\n");
  Table table({"tensor", "dtype", "shape", "bytes", "from", "note"});
  for (const auto& one : plan.tensors) {
    table.add({one.name, std::string(codec::name(one.dtype)), one.shape.text(),
               one.nbytes ? with_commas(*one.nbytes) : "-", one.source == one.name ? "" : one.source, one.note});
  }
  table.print(stdout);
  for (const auto& drop : plan.drops)
    fmt::print("{}left out{}  {}: {}\n", style.dim, style.reset, drop.name, drop.reason);
  for (const auto& note : plan.notes) fmt::print("{}note{}  {}\n", style.dim, style.reset, note);
}

std::vector<convert::QuantFor> patterns(const std::vector<std::string>& rules) {
  std::vector<convert::QuantFor> parsed;
  for (const auto& rule : rules) {
    const size_t equals = rule.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      fail(ErrorKind::Usage, "--quant-for '{}': expected 'GLOB=QUANT', for example 'lm_head=q8'", printable(rule, 80));
    }
    codec::parse_quant(rule.substr(equals + 1));
    parsed.push_back({rule.substr(0, equals), rule.substr(equals + 1)});
  }
  return parsed;
}

void declare_quant(Flags& flags, convert::ConvertOptions& options, std::vector<std::string>& rules,
                   std::optional<double>& shard_max_gb) {
  flags.option("--quant", options.quant, "f32, bf16, f16, q8, q8_2f, q4, q4t, q4tp, vbit, vbit8, q1, q1p, q1s, q1t")
      .repeated("--quant-for", rules,
                "'GLOB=QUANT': another dtype for the tensors whose name fits; the last match wins")
      .option("--mean-bits", options.mean_bits, "vbit: bits per weight on average, 3 to 8")
      .option("--keep", options.keep, "q1s, q1t: share of weights kept as outliers")
      .flag("--vbit-flat", options.vbit_flat, "vbit: every expert its own budget")
      .option("--shard-max-gb", shard_max_gb, "write a set of files of at most about this size");
}

void check_numbers(const convert::ConvertOptions& options, bool sharded) {
  if (!(options.mean_bits >= 3 && options.mean_bits <= 8))
    fail(ErrorKind::Usage, "--mean-bits {}: expected 3 to 8", options.mean_bits);
  if (options.keep >= 0 ? options.keep > 0.25 : options.keep != -1)
    fail(ErrorKind::Usage, "--keep {}: expected 0 to 0.25", options.keep);
  if (sharded && !(options.shard_max_gb > 0 && options.shard_max_gb < 1e9)) {
    fail(ErrorKind::Usage, "--shard-max-gb {}: expected a size above 0", options.shard_max_gb);
  }
}

void one_bit_warning(const convert::ConvertOptions& options, std::vector<std::string>& warnings) {
  if (options.quant.starts_with("q1")) {
    warnings.push_back(
        fmt::format("--quant {} keeps about one bit a weight: it is meant for models trained that way and ruins "
                    "others; measure with cortiq ppl",
                    options.quant));
  }
}

int report(const convert::Summary& summary, const std::vector<std::string>& extra, Json plan, bool with_plan,
           bool json) {
  std::vector<std::string> warnings = summary.warnings;
  warnings.insert(warnings.end(), extra.begin(), extra.end());
  if (json) {
    Json document = {{"output", summary.output},
                     {"bytes", summary.bytes},
                     {"tensors", summary.tensors},
                     {"seconds", summary.seconds},
                     {"source_bytes", summary.source_bytes}};
    add_warnings(document, warnings);
    if (with_plan) document["plan"] = std::move(plan);
    print_json(document);
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  const double rate = static_cast<double>(summary.source_bytes) / std::max(summary.seconds, 1e-6);
  fmt::print("{}: {} tensors, {} from {} in {:.2f} s ({}/s)\n", summary.output, with_commas(summary.tensors),
             human_bytes(summary.bytes), human_bytes(summary.source_bytes), summary.seconds,
             human_bytes(static_cast<uint64_t>(rate)));
  if (summary.outputs.size() > 1)
    fmt::print("{} shards; any of their names opens the whole model\n", summary.outputs.size());
  return 0;
}

}  // namespace

int run_convert(const Arguments& arguments) {
  Common common;
  convert::ConvertOptions options;
  std::string source, output;
  std::vector<std::string> rules;
  std::optional<double> shard_max_gb;
  bool dry_run = false;
  Flags flags("convert", "Turn a Hugging Face directory or a GGUF file into one CMF file",
              {"cortiq convert ./Qwen3-0.6B -o qwen3.cmf",
               "cortiq convert ./model -o m.cmf --quant q4tp --quant-for 'lm_head=q8'",
               "cortiq convert model.gguf -o model.cmf --quant q4t", "cortiq convert ./model --dry-run"});
  flags.positional("source", source, "directory with config.json and safetensors, a .safetensors in one, or a .gguf")
      .option("-o,--output", output, "file to write")
      .flag("--dry-run", dry_run, "print the plan and write nothing")
      .option("--route-stats", options.route_stats, "vbit: expert counts that weigh the shared budget")
      .option("--defrag", options.defrag, "directory with ffn_keep.npy and tensors/*.npy: cut the dead neurons")
      .flag("--allow-unknown", options.allow_unknown, "leave out tensors that the family does not know");
  declare_quant(flags, options, rules, shard_max_gb);
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  options.shard_max_gb = shard_max_gb.value_or(0);
  check_numbers(options, shard_max_gb.has_value());
  codec::parse_quant(options.quant);
  options.quant_for = patterns(rules);
  if (!dry_run) check_output(output, {source});

  if (source.ends_with(".cmf"))
    fail(ErrorKind::Usage, "{}: is a CMF file already; cortiq requant changes its dtypes", source);
  const auto pool = make_pool(common.threads);
  const convert::Plan plan = convert::make_plan(source, options, *pool);
  std::vector<std::string> extra;
  one_bit_warning(options, extra);
  Json rows = Json::array();
  if (dry_run) {
    uint64_t bytes = 0;
    for (const auto& one : plan.tensors) {
      bytes += one.nbytes.value_or(0);
      rows.push_back(plan_row(one, one.dtype, one.nbytes));
    }
    extra.insert(extra.begin(), plan.warnings.begin(), plan.warnings.end());
    if (common.json) {
      Json drops = Json::array();
      for (const auto& drop : plan.drops) drops.push_back({{"name", drop.name}, {"reason", drop.reason}});
      Json document = {{"output", output},
                       {"bytes", bytes},
                       {"tensors", plan.tensors.size()},
                       {"seconds", 0.0},
                       {"source_bytes", plan.source_bytes},
                       {"family", plan.family},
                       {"arch", cmf::write_arch(plan.arch)},
                       {"drops", drops},
                       {"notes", plan.notes}};
      add_warnings(document, extra);
      document["plan"] = rows;
      print_json(document);
      return 0;
    }
    print_plan(plan);
    for (const auto& one : extra) fmt::print("warning  {}\n", one);
    fmt::print("\n{} tensors, about {}; nothing was written\n", plan.tensors.size(), human_bytes(bytes));
    return 0;
  }
  const auto progress = common.progress();
  const auto done = [&](const convert::PlannedTensor& tensor, codec::Dtype dtype, uint64_t nbytes) {
    if (common.json) {
      if (common.verbose) rows.push_back(plan_row(tensor, dtype, nbytes));
    } else if (common.verbose) {
      fmt::print("{:<60} {:<9} {:<18} {:>14}  {}\n", tensor.name, codec::name(dtype), tensor.shape.text(),
                 with_commas(nbytes), tensor.note);
    }
  };
  const convert::Summary summary =
      convert::execute(plan, output, *pool, *progress, interruption(), FileSystem::real(), done);
  progress->end();
  if (!common.json) {
    for (const auto& note : plan.notes) fmt::print("note: {}\n", note);
  }
  return report(summary, extra, std::move(rows), common.verbose, common.json);
}

int run_requant(const Arguments& arguments) {
  Common common;
  convert::Requant request;
  request.options.quant.clear();
  std::string output;
  std::vector<std::string> rules;
  std::optional<double> shard_max_gb;
  Flags flags(
      "requant", "Re-encode a file's tensors, from any dtype to any",
      {"cortiq requant model.cmf -o small.cmf --quant q4tp", "cortiq requant m.cmf -o m2.cmf --quant-for '*mlp*=q4t'"});
  flags.positional("file", request.input, "CMF file, or any shard of a set")
      .option("-o,--output", output, "file to write");
  declare_quant(flags, request.options, rules, shard_max_gb);
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (!request.options.quant.empty()) codec::parse_quant(request.options.quant);
  request.options.shard_max_gb = shard_max_gb.value_or(0);
  check_numbers(request.options, shard_max_gb.has_value());
  request.options.quant_for = patterns(rules);
  if (request.options.quant.empty() && rules.empty()) fail(ErrorKind::Usage, "give --quant or --quant-for");
  check_output(output, {request.input});
  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  const convert::Summary summary = convert::requant(request, output, *pool, *progress, interruption());
  progress->end();
  std::vector<std::string> extra;
  one_bit_warning(request.options, extra);
  return report(summary, extra, Json::array(), false, common.json);
}

}  // namespace cortiq::cli
