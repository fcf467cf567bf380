#include <fmt/format.h>

#include "cli/chat.h"
#include "cli/command.h"
#include "cli/session.h"
#include "engine/prompt.h"

namespace cortiq::cli {
namespace {

struct RunFlags {
  Common common;
  ModelFlags model;
  SamplerFlags sampler;
  std::optional<std::string> prompt, ids, system;
  uint64_t tokens = 1024;
  bool raw = false, ignore_eos = false;
};

Json document_of(const Session& session, const engine::Generated& answer, const engine::Binding& binding, bool text,
                 const std::vector<std::string>& warnings) {
  Json document = {{"ids", answer.ids},
                   {"text", text ? Json(engine::decode_answer(session.model(), answer.ids)) : Json(nullptr)},
                   {"finish", engine::name(answer.finish)},
                   {"prompt_tokens", answer.prompt_tokens},
                   {"prompt_seconds", answer.prompt_seconds},
                   {"decode_seconds", answer.decode_seconds},
                   {"first_token_seconds", answer.first_token_seconds},
                   {"load_seconds", session.load_seconds()},
                   {"seed", answer.seed}};
  if (answer.drafted > 0) {
    document["drafted"] = answer.drafted;
    document["accepted"] = answer.accepted;
  }
  document["skill"] = binding.skill().empty() ? Json(nullptr) : Json(binding.skill());
  document["task"] = binding.task().empty() ? Json(nullptr) : Json(binding.task());
  if (!session.remarks().empty()) document["remarks"] = session.remarks();
  add_warnings(document, warnings);
  return document;
}

int one_shot(Session& session, const RunFlags& flags, const engine::GenerateOptions& options) {
  const engine::Model& model = session.model();
  engine::RoutePrompt route;
  std::vector<uint32_t> prompt;
  std::vector<std::string> notes;
  if (flags.ids) {
    prompt = parse_ids(*flags.ids, "--ids");
    route = {prompt, prompt};
  } else {
    const std::string text = flags.prompt ? *flags.prompt : read_stdin();
    if (text.empty()) fail(ErrorKind::Usage, "the prompt is empty");
    route.raw = engine::encode_text(model, text);
    const bool completion = flags.raw || !model.chat_template();
    if (completion && !flags.raw)
      notes.push_back("the file has no chat template: the prompt is completed as plain text");
    prompt = completion ? route.raw : engine::encode_prompt(model, text, flags.system.value_or(""));
    route.chat = prompt;
  }
  const auto binding = session.binding(&route);
  notes.insert(notes.end(), session.warnings().begin(), session.warnings().end());
  if (!flags.common.json) {
    for (const auto& one : notes) warn(one);
  }
  AnswerPrinter printer(model, !flags.common.json && model.tokenizer() != nullptr);
  const engine::Generated answer = engine::generate(
      session.decoder(), prompt, binding, options, interruption(), [&](uint32_t id) { return printer.token(id); },
      nullptr, session.mtp());
  session.finish();
  if (flags.common.json) {
    print_json(document_of(session, answer, *binding, model.tokenizer() != nullptr, notes));
  } else if (model.tokenizer()) {
    printer.close();
    if (!flags.common.quiet) print_closing_line(answer, *binding, session.remarks());
  } else {
    fmt::print("{}\n", fmt::join(answer.ids, ","));
  }
  return answer.finish == engine::Finish::Cancelled ? 130 : 0;
}

}  // namespace

int run_run(const Arguments& arguments) {
  RunFlags f;
  Flags flags("run", "Ask a model, or talk to it",
              {"cortiq run model.cmf -p 'What is the capital of France?'", "cortiq run model.cmf",
               "cortiq run model.cmf < question.txt", "cortiq run swarm.cmf -p 'SELECT the users' --skill auto",
               "cortiq run model.cmf --ids 1,2,3 -n 16 --greedy --json"});
  f.model.declare(flags);
  flags.option("-p,--prompt", f.prompt, "the question (default: standard input; a conversation on a terminal)")
      .option("--ids", f.ids, "token ids instead of text; no tokenizer, no template")
      .option("-n,--tokens", f.tokens, "tokens at most (default 1024; the context is always a limit)")
      .option("--system", f.system, "system message")
      .flag("--raw", f.raw, "no chat template: complete the text")
      .flag("--ignore-eos", f.ignore_eos, "do not stop at end tokens");
  f.sampler.declare(flags);
  f.model.declare_mtp(flags);
  f.common.declare_json(flags);
  f.common.declare_threads(flags);
  f.common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (f.prompt && f.ids) fail(ErrorKind::Usage, "-p and --ids exclude each other");

  engine::GenerateOptions options;
  options.max_tokens = f.tokens;
  options.sampler = f.sampler.resolve();
  options.ignore_eos = f.ignore_eos;
  Session session(f.model, f.common);
  if (!f.prompt && !f.ids && is_terminal(stdin) && !f.common.json) {
    return converse(session, options, f.system.value_or(""), f.raw);
  }
  return one_shot(session, f, options);
}

}  // namespace cortiq::cli
