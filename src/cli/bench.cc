#include "engine/bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "cli/bandwidth.h"
#include "cli/command.h"
#include "cli/session.h"

namespace cortiq::cli {
namespace {

// Resident memory of this process in bytes.
uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

int run_bench(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  engine::BenchOptions options;
  Flags flags("bench", "Speed of a model, beside the memory bandwidth of this machine",
              {"cortiq bench model.cmf", "cortiq bench model.cmf -p 512 -n 64 -r 5 --batch 8 --json"});
  model_flags.declare(flags);
  flags.option("-p,--prompt", options.prompt, "tokens of the prompt (default 512)")
      .option("-n,--tokens", options.tokens, "tokens decoded (default 64)")
      .option("-r,--repeats", options.repeats, "repetitions; medians are shown (default 5)")
      .option("--batch", options.batch, "sequences decoded together (default 1)");
  model_flags.declare_mtp(flags);
  common.declare_json(flags);
  common.declare_threads(flags);
  if (!flags.parse(arguments)) return 0;
  if (options.prompt == 0 || options.tokens < 2 || options.repeats == 0 || options.batch == 0) {
    fail(ErrorKind::Usage, "-p, -r and --batch begin at 1, -n at 2");
  }
  Session session(model_flags, common, false);
  options.mtp = session.model().mtp() ? session.mtp() : engine::MtpChoice::Off;
  const auto binding = session.binding(nullptr);
  const double before = read_bandwidth(session.pool());
  const engine::BenchResult result = engine::bench(session.decoder(), binding, options, interruption());
  const uint64_t rss = resident_bytes();
  const double bandwidth = (before + read_bandwidth(session.pool())) / 2;
  const double steps = result.decode_tokens_per_second / static_cast<double>(options.batch);
  const double fraction = static_cast<double>(result.decode_bytes_per_token) * steps / bandwidth;
  if (common.json) {
    Json document = {{"prefill_tokens_per_second", result.prefill_tokens_per_second},
                     {"decode_tokens_per_second", result.decode_tokens_per_second},
                     {"decode_bytes_per_token", result.decode_bytes_per_token},
                     {"read_bandwidth", bandwidth},
                     {"bandwidth_fraction", fraction},
                     {"load_seconds", session.load_seconds()},
                     {"first_token_seconds", result.first_token_seconds},
                     {"rss_bytes", rss},
                     {"cache_bytes", result.cache_bytes},
                     {"threads", session.pool().threads()},
                     {"batch", options.batch},
                     {"drafted", result.drafted},
                     {"accepted", result.accepted}};
    add_warnings(document, session.warnings());
    print_json(document);
    return 0;
  }
  for (const auto& one : session.warnings()) warn(one);
  Table table({"what", "figure", ""});
  table.add({"prefill", fmt::format("{:.1f}", result.prefill_tokens_per_second),
             fmt::format("tokens/s, {} tokens", options.prompt)});
  table.add({"decode", fmt::format("{:.1f}", result.decode_tokens_per_second),
             fmt::format("tokens/s, {} sequence{}", options.batch, options.batch == 1 ? "" : "s")});
  table.add({"first token", fmt::format("{:.1f}", result.first_token_seconds * 1e3), "ms after the prompt's start"});
  table.add({"load", fmt::format("{:.1f}", session.load_seconds() * 1e3), "ms"});
  table.add(
      {"weights read", fmt::format("{:.1f}", static_cast<double>(result.decode_bytes_per_token) / 1e6), "MB a step"});
  table.add({"read bandwidth", fmt::format("{:.1f}", bandwidth / 1e9),
             fmt::format("GB/s, measured before and after with {} threads", session.pool().threads())});
  table.add({"of bandwidth", fmt::format("{:.1f}", fraction * 100), "% while decoding"});
  table.add({"resident", fmt::format("{:.1f}", static_cast<double>(rss) / 1e6), "MB, the file's own pages included"});
  if (result.drafted > 0)
    table.add(
        {"drafts",
         fmt::format("{:.1f}", 100.0 * static_cast<double>(result.accepted) / static_cast<double>(result.drafted)),
         "% accepted"});
  table.print(stdout);
  return 0;
}

}  // namespace cortiq::cli
