#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/session.h"
#include "engine/perplexity.h"
#include "skills/select.h"

namespace cortiq::cli {

int run_ppl(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  std::optional<std::string> file, answers;
  uint64_t window = 0;
  Flags flags("ppl", "Perplexity of a text or of recorded answers",
              {"cortiq ppl model.cmf --file text.txt", "cortiq ppl model.cmf --file text.txt --windows-all 256 --exact",
               "cortiq ppl model.cmf --answers heldout.jsonl --task sql"});
  model_flags.declare(flags);
  flags.option("-f,--file", file, "text: one window of at most 1024 ids")
      .option("--windows-all", window, "all windows of this many ids, each a fresh context")
      .option("--answers", answers, "conversations, one {\"messages\":[…]} a line: their last answers are scored");
  common.declare_json(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (file.has_value() == answers.has_value()) fail(ErrorKind::Usage, "give --file or --answers");
  if (window == 1) fail(ErrorKind::Usage, "--windows-all 1: a window of one id has nothing to score");

  Session session(model_flags, common);
  const auto binding = session.binding(nullptr);
  const auto progress = common.progress();
  engine::Perplexity result;
  if (file) {
    const std::string text = FileSystem::real().read_all(*file);
    result = engine::text_perplexity(session.decoder(), binding, text, window, interruption(), *progress);
  } else {
    result =
        engine::answer_perplexity(session.decoder(), binding, skills::read_rows(*answers), interruption(), *progress);
  }
  progress->end();
  session.finish();
  if (common.json) {
    Json document = {
        {"ppl", result.ppl()}, {"nll", result.nll}, {"tokens", result.tokens}, {"windows", result.windows}};
    document["skill"] = binding->skill().empty() ? Json(nullptr) : Json(binding->skill());
    document["task"] = binding->task().empty() ? Json(nullptr) : Json(binding->task());
    add_warnings(document, session.warnings());
    print_json(document);
  } else {
    for (const auto& one : session.warnings()) warn(one);
    fmt::print("perplexity {:.5f}  ({} ids scored in {} {}, {:.5f} nats an id)\n", result.ppl(),
               with_commas(result.tokens), with_commas(result.windows), answers ? "answers" : "windows",
               result.nll / static_cast<double>(std::max<uint64_t>(1, result.tokens)));
  }
  return 0;
}

}  // namespace cortiq::cli
