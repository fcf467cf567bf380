#include <fmt/format.h>

#include <map>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/load_text.h"
#include "text/chat.h"

namespace cortiq::cli {
namespace {

// Line mode with PATH `-`: each line carries its own template.
std::string render_own(const Json& line, const std::optional<std::tm>& now) {
  if (!line.is_object() || !line.contains("template") || !line["template"].is_string() || !line.contains("context")) {
    fail(ErrorKind::Parse, "expected an object with 'template' and 'context'");
  }
  return text::ChatTemplate::parse(line["template"].get_ref<const std::string&>(), "template")
      ->render(line["context"], now);
}

}  // namespace

int run_template(const Arguments& arguments) {
  std::string path;
  std::optional<std::string> clock;
  bool jsonl = false;
  Flags flags("template", "Render a chat template",
              {"cortiq template model.cmf --jsonl < contexts.jsonl",
               "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | cortiq template ./model-dir"});
  flags.positional("path", path, "CMF file, directory, tokenizer_config.json, .jinja file, or - (each line its own)")
      .flag("--jsonl", jsonl, "one context object a line in, one {\"output\"} or {\"error\"} a line out")
      .option("--now", clock, "fixes the clock of strftime_now (2024-07-26T14:05:09)");
  if (!flags.parse(arguments)) return 0;
  std::optional<std::tm> now;
  if (clock) now = text::parse_clock(*clock);
  const bool own = path == "-";
  const auto shared = own ? nullptr : text::ChatTemplate::parse(load_template_source(path), path);
  if (!jsonl) {
    const Json context = parse_json(read_stdin(), "context");
    fmt::print("{}", own ? render_own(context, now) : shared->render(context, now));
    return 0;
  }
  for_each_line([&](const std::string& line) {
    try {
      const Json value = parse_json(line, "line");
      print_json({{"output", own ? render_own(value, now) : shared->render(value, now)}});
    } catch (const Error& error) {
      print_json({{"error", error.what()}});
    }
  });
  return 0;
}

}  // namespace cortiq::cli
