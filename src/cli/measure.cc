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

// What both commands do: the same data with and without something, a contract written into the file, a report.
class Measurement {
 public:
  /// False if only help was asked for. `what`: "id" of a skill or "name" of a mask.
  bool parse(Flags& flags, const char* what, const char* help, const std::vector<std::string>& arguments) {
    what_ = what;
    flags.positional("file", target_.path, "CMF file")
        .option(fmt::format("--{}", what), name_, help)
        .option("-o,--output", target_.output, "file to write (default: append in place)");
    data_.declare(flags);
    flags.flag("--exact", model_flags_.exact, "f32 from decoded weights throughout");
    common_.declare_json(flags);
    common_.declare_threads(flags);
    common_.declare_progress(flags);
    if (!flags.parse(arguments)) return false;
    model_flags_.path = target_.path;
    progress_ = common_.progress();
    return true;
  }

  /// `bind` gives the binding to compare with the dense backbone.
  template <class Bind>
  void run(Bind bind) {
    Session session(model_flags_, common_);
    without_ = data_.measure(session, session.binding("none", "none", std::nullopt, nullptr), *progress_);
    with_ = data_.measure(session, bind(session), *progress_);
  }

  const skills::Target& target() const noexcept { return target_; }
  const std::string& name() const noexcept { return name_; }
  const Dataset& data() const noexcept { return data_; }
  const engine::Perplexity& with() const noexcept { return with_; }
  const engine::Perplexity& without() const noexcept { return without_; }

  int report(const Json& quality, const skills::RegistryReport& done, const std::string& sentence) {
    progress_->end();
    if (common_.json) {
      Json document = {{what_, name_}, {"quality", quality}};
      add_warnings(document, done.warnings);
      print_json(document);
      return 0;
    }
    for (const auto& one : done.warnings) warn(one);
    fmt::print("{} of {}\n", sentence, data_.path());
    return 0;
  }

 private:
  Common common_;
  ModelFlags model_flags_;
  skills::Target target_;
  std::string name_, what_;
  Dataset data_;
  std::unique_ptr<Progress> progress_;
  engine::Perplexity with_, without_;
};

}  // namespace

int skill_measure(const std::vector<std::string>& arguments) {
  Measurement one;
  Flags flags("skill measure", "Write a skill's quality contract: perplexity of held-out data with and without it",
              {"cortiq skill measure swarm.cmf --id sql --answers heldout_sql.jsonl"});
  if (!one.parse(flags, "id", "skill", arguments)) return 0;
  one.run([&](Session& session) { return session.binding(one.name(), std::nullopt, std::nullopt, nullptr); });
  const double overlaid = one.with().ppl(), backbone = one.without().ppl();
  const Json quality = {{"metric", "ppl"},
                        {"backbone", rounded(backbone)},
                        {"overlaid", rounded(overlaid)},
                        {"dataset_sha256", one.data().sha256_hex()},
                        {"file", file_name_of(one.data().path())},
                        {"tokens", one.with().tokens}};
  return one.report(quality, skills::set_record_key(one.target(), one.name(), "quality", quality, false),
                    fmt::format("skill '{}': perplexity {:.5f}, the backbone's {:.5f} ({:+.1f}%), {} ids", one.name(),
                                overlaid, backbone, 100 * (overlaid / backbone - 1), with_commas(one.with().tokens)));
}

int mask_measure(const std::vector<std::string>& arguments) {
  Measurement one;
  Flags flags("mask measure", "Write a mask's quality contract: perplexity of held-out data, dense and masked",
              {"cortiq mask measure model.cmf --name sql --answers heldout_sql.jsonl"});
  if (!one.parse(flags, "name", "mask", arguments)) return 0;
  one.run([&](Session& session) { return session.binding("none", one.name(), std::nullopt, nullptr); });
  const double masked = one.with().ppl(), dense = one.without().ppl();
  const Json quality = {{"metric", "heldout_ppl_ratio"},    {"value", rounded(dense / masked)},
                        {"baseline_dense", rounded(dense)}, {"masked", rounded(masked)},
                        {"n_samples", one.with().windows},  {"dataset_sha256", one.data().sha256_hex()}};
  return one.report(quality, skills::set_mask_quality(one.target(), one.name(), quality.dump()),
                    fmt::format("mask '{}': perplexity {:.5f}, dense {:.5f} ({:+.1f}%), {} samples", one.name(), masked,
                                dense, 100 * (masked / dense - 1), with_commas(one.with().windows)));
}

}  // namespace cortiq::cli
