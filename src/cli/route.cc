#include <fmt/format.h>

#include "cli/command.h"
#include "cli/session.h"
#include "engine/prompt.h"

namespace cortiq::cli {

int run_route(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  std::optional<std::string> prompt, ids;
  Flags flags(
      "route", "Which skill a prompt belongs to, and how near the others are",
      {"cortiq route swarm.cmf -p 'all users older than 30'", "cortiq route swarm.cmf --ids 1,2,3 --exact --json"});
  model_flags.declare(flags);
  flags.option("-p,--prompt", prompt, "the prompt").option("--ids", ids, "token ids instead");
  common.declare_json(flags);
  common.declare_threads(flags);
  if (!flags.parse(arguments)) return 0;
  if (prompt.has_value() == ids.has_value()) fail(ErrorKind::Usage, "give -p or --ids");
  Session session(model_flags, common, prompt.has_value());
  engine::RoutePrompt asked;
  if (ids) {
    asked.chat = parse_ids(*ids, "--ids");
    asked.raw = asked.chat;
  } else {
    asked.raw = engine::encode_text(session.model(), *prompt);
    asked.chat = engine::encode_prompt(session.model(), *prompt);
  }
  const engine::Routing routing = engine::route(session.decoder(), asked);
  if (routing.energies.empty()) {
    fail(ErrorKind::Usage, "{}: no skill has a selection; make one with cortiq skill select", model_flags.path);
  }
  std::vector<std::string> warnings = session.warnings();
  warnings.insert(warnings.end(), routing.warnings.begin(), routing.warnings.end());
  if (common.json) {
    Json document = {{"choice", routing.choice ? Json(*routing.choice) : Json(nullptr)}, {"energies", Json::object()}};
    for (const auto& one : routing.energies) document["energies"][one.id] = one.value;
    document["phi_layer"] = routing.energies.front().phi_layer;
    document["novel"] = routing.novel;
    add_warnings(document, warnings);
    print_json(document);
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  Table table({"skill", "energy", "layer", ""});
  for (const auto& one : routing.energies) {
    table.add({printable(one.id), fmt::format("{:.5f}", one.value), std::to_string(one.phi_layer),
               routing.choice == one.id ? "<" : ""});
  }
  table.print(stdout);
  if (routing.novel) fmt::print("the prompt looks like none of them\n");
  return 0;
}

}  // namespace cortiq::cli
