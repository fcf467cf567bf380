#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/session.h"
#include "convert/safetensors_writer.h"
#include "engine/inspect.h"
#include "engine/prompt.h"

namespace cortiq::cli {

int run_logits(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  std::optional<std::string> ids, ids_file, text, mtp;
  std::string output;
  engine::InspectOptions options;
  Flags flags("logits", "Logits and everything on the way to them, as safetensors",
              {"cortiq logits model.cmf --ids 1,2,3 -o logits.safetensors",
               "cortiq logits model.cmf --text 'Hello' --hidden --last 1 -o h.safetensors"});
  model_flags.declare(flags);
  flags.option("--ids", ids, "token ids")
      .option("--ids-file", ids_file, "file of token ids, separated by commas or white space")
      .option("--text", text, "plain text, with the post-processor's template")
      .flag("--hidden", options.hidden, "also the states between the layers and the routers' choices")
      .option("--last", options.last, "only the last N positions")
      .option("--mtp", mtp, "pre or post: also the draft head's logits")
      .option("--chunk", options.chunk, "ids a pass (the result is the same)")
      .option("-o,--output", output, "file to write");
  common.declare_json(flags);
  common.declare_threads(flags);
  if (!flags.parse(arguments)) return 0;
  if ((ids ? 1 : 0) + (ids_file ? 1 : 0) + (text ? 1 : 0) != 1) {
    fail(ErrorKind::Usage, "give one of --ids, --ids-file and --text");
  }
  if (mtp) {
    if (*mtp != "pre" && *mtp != "post") fail(ErrorKind::Usage, "--mtp {}: use pre or post", printable(*mtp, 40));
    options.mtp = *mtp == "pre" ? engine::MtpHidden::Pre : engine::MtpHidden::Post;
  }
  check_output(output, {model_flags.path});

  Session session(model_flags, common, text.has_value());
  std::vector<uint32_t> prompt;
  if (ids) prompt = parse_ids(*ids, "--ids");
  if (ids_file) prompt = parse_ids(FileSystem::real().read_all(*ids_file), *ids_file);
  if (text) prompt = engine::encode_text(session.model(), *text);
  const engine::RoutePrompt route{prompt, prompt};
  const auto tensors = engine::inspect(session.decoder(), session.binding(&route), prompt, options);
  session.finish();

  std::vector<convert::SafetensorsWriter::Declaration> declarations;
  for (const auto& one : tensors) declarations.push_back({one.name, one.shape, "F32"});
  convert::SafetensorsWriter writer(FileSystem::real(), output, declarations);
  for (const auto& one : tensors) writer.append(one.values);
  writer.finish();
  if (common.json) {
    Json document = {{"output", output}, {"tensors", Json::array()}};
    for (const auto& one : tensors) document["tensors"].push_back({{"name", one.name}, {"shape", one.shape}});
    add_warnings(document, session.warnings());
    print_json(document);
  } else {
    for (const auto& one : session.warnings()) warn(one);
    for (const auto& one : tensors) fmt::print("{:<20} [{}]\n", one.name, fmt::join(one.shape, ", "));
  }
  return 0;
}

}  // namespace cortiq::cli
