#include "cmf/verify.h"

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common.h"

namespace cortiq::cli {

int run_verify(const Arguments& arguments) {
  Common common;
  std::string path;
  cmf::VerifyOptions options;
  Flags flags("verify", "Prove a file: structure, every hash, every stored scale, the signature beside it",
              {"cortiq verify model.cmf", "cortiq verify model-00001-of-00005.cmf --set",
               "cortiq verify model.cmf --pubkey HEX"});
  flags.positional("file", path, "CMF file, or one shard alone")
      .flag("--set", options.whole_set, "all shards of the set")
      .option("--pubkey", options.pubkey, "demand a signature by this key (64 hex digits)");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  const cmf::Report report = cmf::verify(path, options, *pool, FileSystem::real(), *progress, interruption());
  progress->end();

  if (common.json) {
    Json problems = Json::array();
    for (const auto& one : report.problems) {
      problems.push_back({{"kind", name(one.kind)}, {"where", one.where}, {"message", one.message}});
    }
    Json document = {{"file", report.file},          {"valid", report.valid}, {"problems", problems},
                     {"tensors", report.tensors},    {"bytes", report.bytes}, {"seconds", report.seconds},
                     {"signature", report.signature}};
    add_warnings(document, report.warnings);
    print_json(document);
    return report.valid ? 0 : 1;
  }
  for (const auto& one : report.warnings) warn(one);
  const Style style = style_of(stdout);
  if (report.valid) {
    const double rate = static_cast<double>(report.bytes) / std::max(report.seconds, 1e-6) / 1e9;
    fmt::print("{}valid{}  {}: {} tensors, {}, every hash right ({:.1f} GB/s)\n", style.green, style.reset,
               one_line(report.file), with_commas(report.tensors), human_bytes(report.bytes), rate);
    fmt::print("signature: {}\n", report.signature);
    return 0;
  }
  std::fflush(stdout);
  for (const auto& one : report.problems) {
    const std::string where = one.where.empty() ? report.file : one.where;
    fmt::print(stderr, "error: {}: {}\n", name(one.kind), one_line(where + ": " + one.message));
  }
  fmt::print("{}not valid{}  {}: {} problem{}\n", style.red, style.reset, one_line(report.file), report.problems.size(),
             report.problems.size() == 1 ? "" : "s");
  return 1;
}

}  // namespace cortiq::cli
