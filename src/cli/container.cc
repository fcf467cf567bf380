#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cmf/compact.h"
#include "cmf/diff.h"
#include "cmf/sharded_writer.h"
#include "cmf/signature.h"

// Commands on whole containers: compact, split, merge, sign, keygen, diff.
namespace cortiq::cli {
namespace {

int report_compacted(const std::string& output, const cmf::Compacted& done) {
  for (const auto& one : done.warnings) warn(one);
  fmt::print("{}: {} from {}\n", output, human_bytes(done.bytes), human_bytes(done.bytes_before));
  return 0;
}

}  // namespace

int run_compact(const Arguments& arguments) {
  Common common;
  std::string path, output;
  bool in_place = false;
  Flags flags("compact", "Rewrite a file without the dead bytes that growth leaves",
              {"cortiq compact model.cmf --in-place", "cortiq compact model.cmf -o tight.cmf"});
  flags.positional("file", path, "CMF file")
      .option("-o,--output", output, "file to write")
      .flag("--in-place", in_place, "put the new file in place of the old one, at once");
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (in_place == !output.empty()) fail(ErrorKind::Usage, "give -o FILE or --in-place");
  if (!in_place) check_output(output, {path});
  const auto progress = common.progress();
  const auto done = cmf::compact(FileSystem::real(), path, in_place ? path : output, *progress, interruption());
  progress->end();
  return report_compacted(in_place ? path : output, done);
}

int run_merge(const Arguments& arguments) {
  Common common;
  std::string path, output;
  Flags flags("merge", "One file of a set of shards", {"cortiq merge model-00001-of-00005.cmf -o model.cmf"});
  flags.positional("file", path, "any shard of the set").option("-o,--output", output, "file to write");
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  check_output(output, {path});
  const auto progress = common.progress();
  const auto done = cmf::merge(FileSystem::real(), path, output, *progress, interruption());
  progress->end();
  return report_compacted(output, done);
}

int run_split(const Arguments& arguments) {
  Common common;
  std::string path, output;
  double gigabytes = 0;
  Flags flags("split", "A set of shards of one file", {"cortiq split model.cmf --shard-max-gb 2 -o model.cmf"});
  flags.positional("file", path, "CMF file")
      .option("--shard-max-gb", gigabytes,
              "a shard holds tensors of at most this size, counted as 4 bytes a weight (§10)")
      .option("-o,--output", output, "NAME.cmf: shards are NAME-00001-of-0000N.cmf (default: the file's own name)");
  common.declare_json(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (!(gigabytes > 0) || gigabytes > 1e9) fail(ErrorKind::Usage, "--shard-max-gb: expected a size above 0");
  const auto progress = common.progress();
  const auto paths = cmf::split(FileSystem::real(), path, output.empty() ? path : output,
                                static_cast<uint64_t>(gigabytes * 1e9), *progress, interruption());
  progress->end();
  if (common.json) {
    Json document = {{"output", paths.front()}, {"outputs", paths}};
    add_warnings(document, {});
    print_json(document);
  } else {
    for (const auto& one : paths) fmt::print("{}\n", one);
  }
  return 0;
}

int run_keygen(const Arguments& arguments) {
  std::string path;
  Flags flags("keygen", "A new key to sign files with", {"cortiq keygen my.key"});
  flags.positional("file", path, "file for the private key: keep it to yourself");
  if (!flags.parse(arguments)) return 0;
  const std::string pubkey = cmf::generate_key(FileSystem::real(), path);
  fmt::print("{}: private key, readable by you alone\npublic key {}\n", path, pubkey);
  return 0;
}

int run_sign(const Arguments& arguments) {
  std::string path, key;
  Flags flags("sign", "Sign a file: a signature beside it, the file itself untouched",
              {"cortiq sign model.cmf --key my.key"});
  flags.positional("file", path, "CMF file").option("--key", key, "private key file (cortiq keygen)");
  if (!flags.parse(arguments)) return 0;
  if (key.empty()) fail(ErrorKind::Usage, "--key: name a private key file; cortiq keygen makes one");
  const std::string pubkey = cmf::sign(FileSystem::real(), path, key, interruption());
  fmt::print("{}: signed by {}\n", cmf::signature_path(path), pubkey);
  return 0;
}

int run_diff(const Arguments& arguments) {
  Common common;
  std::string a, b;
  Flags flags("diff", "What differs between two models", {"cortiq diff a.cmf b.cmf", "cortiq diff a.cmf b.cmf --json"});
  flags.positional("a", a, "CMF file").positional("b", b, "CMF file");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  const auto pool = make_pool(common.threads);
  const auto progress = common.progress();
  const cmf::Diff diff = cmf::diff(*cmf::FileSet::open(a), *cmf::FileSet::open(b), *pool, *progress, interruption());
  progress->end();
  if (common.json) {
    Json document = cmf::to_json(diff);
    document["different"] = diff.different();
    add_warnings(document, {});
    print_json(document);
    return diff.different() ? 1 : 0;
  }
  const auto list = [](const char* title, const std::vector<cmf::Difference>& rows) {
    for (const auto& one : rows) {
      fmt::print("{:<8} {}: {} | {}\n", title, printable(one.what, 80), one.a.empty() ? "(none)" : printable(one.a, 80),
                 one.b.empty() ? "(none)" : printable(one.b, 80));
    }
  };
  list("section", diff.sections);
  list("header", diff.header);
  list("mask", diff.masks);
  list("skill", diff.skills);
  if (!diff.tensors.empty()) {
    Table table({"tensor", "a", "b", "max |a-b|", "relative"});
    for (const auto& one : diff.tensors) {
      table.add({printable(one.name), one.only_b ? "-" : one.a, one.only_a ? "-" : one.b,
                 one.max_abs ? fmt::format("{:.4g}", *one.max_abs) : "-",
                 one.max_rel ? fmt::format("{:.4g}", *one.max_rel) : "-"});
    }
    table.print(stdout);
  }
  fmt::print("{} tensors equal, {} different\n", diff.equal_tensors, diff.tensors.size());
  return diff.different() ? 1 : 0;
}

}  // namespace cortiq::cli
