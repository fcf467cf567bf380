#include <fmt/format.h>

#include <cmath>

#include "base/file_system.h"
#include "base/sha256.h"
#include "cli/session.h"
#include "cli/skill_commands.h"
#include "engine/perplexity.h"
#include "skills/registry.h"
#include "skills/select.h"

namespace cortiq::cli {
namespace {

// Held-out data, and what makes a measurement on it reproducible.
struct Dataset {
  std::optional<std::string> text, answers;
  uint64_t window = 256;

  void declare(Flags& flags) {
    flags.option("-f,--file", text, "held-out text")
        .option("--answers", answers, "held-out conversations, one {\"messages\":[…]} a line")
        .option("--windows-all", window, "ids of a window of text (default 256)");
  }
  const std::string& path() const {
    if (text.has_value() == answers.has_value()) fail(ErrorKind::Usage, "give --file or --answers");
    return text ? *text : *answers;
  }
  engine::Perplexity measure(Session& session, const std::shared_ptr<const engine::Binding>& binding,
                             Progress& progress) const {
    if (answers)
      return engine::answer_perplexity(session.decoder(), binding, skills::read_rows(*answers), interruption(),
                                       progress);
    return engine::text_perplexity(session.decoder(), binding, FileSystem::real().read_all(*text), window,
                                   interruption(), progress);
  }
  std::string sha256_hex() const { return hex(sha256(Bytes(FileSystem::real().read_all(path())))); }
};

double rounded(double value) { return std::round(value * 1e5) / 1e5; }

}  // namespace

int skill_measure(const std::vector<std::string>& arguments) {
  Common common;
  ModelFlags model_flags;
  skills::Target target;
  std::string id;
  Dataset data;
  Flags flags("skill measure", "Write a skill's quality contract: perplexity of held-out data with and without it",
              {"cortiq skill measure swarm.cmf --id sql --answers heldout_sql.jsonl"});
  flags.positional("file", target.path, "CMF file")
      .option("--id", id, "skill")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  data.declare(flags);
  flags.flag("--exact", model_flags.exact, "f32 from decoded weights throughout");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  model_flags.path = target.path;
  const auto progress = common.progress();
  engine::Perplexity backbone, overlaid;
  {
    Session session(model_flags, common);
    backbone = data.measure(session, session.binding("none", "none", std::nullopt, nullptr), *progress);
    overlaid = data.measure(session, session.binding(id, std::nullopt, std::nullopt, nullptr), *progress);
  }
  const Json quality = {{"metric", "ppl"},
                        {"backbone", rounded(backbone.ppl())},
                        {"overlaid", rounded(overlaid.ppl())},
                        {"dataset_sha256", data.sha256_hex()},
                        {"file", file_name_of(data.path())},
                        {"tokens", overlaid.tokens}};
  const auto report = skills::set_record_key(target, id, "quality", quality, false);
  progress->end();
  if (common.json) {
    Json document = {{"id", id}, {"quality", quality}};
    add_warnings(document, report.warnings);
    print_json(document);
  } else {
    for (const auto& one : report.warnings) warn(one);
    fmt::print("skill '{}': perplexity {:.5f}, the backbone's {:.5f} ({:+.1f}%), {} ids of {}\n", id, overlaid.ppl(),
               backbone.ppl(), 100 * (overlaid.ppl() / backbone.ppl() - 1), with_commas(overlaid.tokens), data.path());
  }
  return 0;
}

int mask_measure(const std::vector<std::string>& arguments) {
  Common common;
  ModelFlags model_flags;
  skills::Target target;
  std::string name;
  Dataset data;
  Flags flags("mask measure", "Write a mask's quality contract: perplexity of held-out data, dense and masked",
              {"cortiq mask measure model.cmf --name sql --answers heldout_sql.jsonl"});
  flags.positional("file", target.path, "CMF file")
      .option("--name", name, "mask")
      .option("-o,--output", target.output, "file to write (default: append in place)");
  data.declare(flags);
  flags.flag("--exact", model_flags.exact, "f32 from decoded weights throughout");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  model_flags.path = target.path;
  const auto progress = common.progress();
  engine::Perplexity dense, masked;
  {
    Session session(model_flags, common);
    dense = data.measure(session, session.binding("none", "none", std::nullopt, nullptr), *progress);
    masked = data.measure(session, session.binding("none", name, std::nullopt, nullptr), *progress);
  }
  const Json quality = {{"metric", "heldout_ppl_ratio"},
                        {"value", rounded(dense.ppl() / masked.ppl())},
                        {"baseline_dense", rounded(dense.ppl())},
                        {"masked", rounded(masked.ppl())},
                        {"n_samples", masked.windows},
                        {"dataset_sha256", data.sha256_hex()}};
  const auto report = skills::set_mask_quality(target, name, quality.dump());
  progress->end();
  if (common.json) {
    Json document = {{"name", name}, {"quality", quality}};
    add_warnings(document, report.warnings);
    print_json(document);
  } else {
    for (const auto& one : report.warnings) warn(one);
    fmt::print("mask '{}': perplexity {:.5f}, dense {:.5f} ({:+.1f}%), {} samples of {}\n", name, masked.ppl(),
               dense.ppl(), 100 * (masked.ppl() / dense.ppl() - 1), with_commas(masked.windows), data.path());
  }
  return 0;
}

}  // namespace cortiq::cli
