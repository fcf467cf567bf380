#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/session.h"
#include "cmf/lossless_json.h"
#include "engine/prompt.h"

namespace cortiq::cli {
namespace {

// A request of the input file and what became of it.
struct Row {
  Json id;  // as given; null when absent
  std::string error;
  engine::Generated answer;
  std::shared_ptr<const engine::Binding> binding;
  bool done = false;
};

std::optional<std::string> text_of(const Json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return std::nullopt;
  if (!found->is_string()) fail(ErrorKind::Parse, "'{}' is no text", key);
  return found->get<std::string>();
}

double number_of(const Json& request, const char* key, double fallback) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_number()) fail(ErrorKind::Parse, "'{}' is no number", key);
  return found->get<double>();
}

uint64_t count_of(const Json& request, const char* key, uint64_t fallback) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_number_unsigned()) fail(ErrorKind::Parse, "'{}' is no whole number from 0 on", key);
  return found->get<uint64_t>();
}

// A key that is not known would be a wish that nobody fulfils.
void check_keys(const Json& request) {
  constexpr std::string_view kKeys[] = {"id",
                                        "messages",
                                        "prompt",
                                        "ids",
                                        "n",
                                        "skill",
                                        "task",
                                        "blend",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "min_p",
                                        "repeat_penalty",
                                        "presence_penalty",
                                        "seed",
                                        "greedy",
                                        "ignore_eos",
                                        "raw",
                                        "system",
                                        "tools",
                                        "documents",
                                        "enable_thinking"};
  for (const auto& [key, value] : request.items()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      fail(ErrorKind::Usage, "unknown key '{}'", printable(key, 60));
    }
  }
  if (request.contains("messages") + request.contains("prompt") + request.contains("ids") != 1) {
    fail(ErrorKind::Parse, "expected one of 'messages', 'prompt' and 'ids'");
  }
}

bool flag_of(const Json& request, const char* key, bool fallback) {
  const auto found = request.find(key);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_boolean()) fail(ErrorKind::Parse, "'{}' is neither true nor false", key);
  return found->get<bool>();
}

// The prompt of a request in the forms that routing may ask for.
engine::RoutePrompt prompt_of(const engine::Model& model, const Json& request) {
  engine::RoutePrompt prompt;
  if (request.contains("messages")) {
    const Json& messages = request["messages"];
    if (!messages.is_array() || messages.empty()) fail(ErrorKind::Parse, "'messages' is no list of messages");
    Json extra = Json::object();
    for (const char* key : {"tools", "documents", "enable_thinking"}) {
      if (request.contains(key)) extra[key] = request[key];
    }
    prompt.chat = engine::encode_chat(model, messages, extra.empty() ? nullptr : &extra);
    const Json& last = messages.back();
    if (last.is_object() && last.contains("content") && last["content"].is_string()) {
      prompt.raw = engine::encode_text(model, last["content"].get_ref<const std::string&>());
    }
    if (prompt.raw.empty()) prompt.raw = prompt.chat;
  } else if (request.contains("prompt")) {
    // As `run -p`: a question where the file has a template, a text to complete where it has none.
    const std::string text = text_of(request, "prompt").value_or("");
    prompt.raw = engine::encode_text(model, text);
    prompt.chat = flag_of(request, "raw", false)
                      ? prompt.raw
                      : engine::encode_prompt(model, text, text_of(request, "system").value_or(""));
  } else if (request.contains("ids")) {
    const Json& ids = request["ids"];
    if (!ids.is_array()) fail(ErrorKind::Parse, "'ids' is no list");
    for (const Json& id : ids) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
        fail(ErrorKind::Parse, "'ids' holds something that is no token id");
      prompt.chat.push_back(id.get<uint32_t>());
    }
    prompt.raw = prompt.chat;
  }
  return prompt;
}

engine::GenerateOptions options_of(const Json& request, const engine::GenerateOptions& defaults) {
  engine::GenerateOptions options = defaults;
  options.max_tokens = count_of(request, "n", defaults.max_tokens);
  engine::SamplerOptions& s = options.sampler;
  s.temperature = number_of(request, "temperature", s.temperature);
  s.top_k = static_cast<int64_t>(count_of(request, "top_k", static_cast<uint64_t>(s.top_k)));
  s.top_p = number_of(request, "top_p", s.top_p);
  s.min_p = number_of(request, "min_p", s.min_p);
  s.repetition_penalty = number_of(request, "repeat_penalty", s.repetition_penalty);
  s.presence_penalty = number_of(request, "presence_penalty", s.presence_penalty);
  if (request.contains("seed") && !request["seed"].is_null()) s.seed = count_of(request, "seed", 0);
  options.ignore_eos = flag_of(request, "ignore_eos", defaults.ignore_eos);
  if (flag_of(request, "greedy", false)) s.temperature = 0;
  s.check();
  return options;
}

Json result_of(const engine::Model& model, const Row& row, bool with_skill) {
  Json out = Json::object();
  if (!row.error.empty()) {
    out["error"] = row.error;
    return out;
  }
  out["ids"] = row.answer.ids;
  out["text"] = model.tokenizer() ? Json(engine::decode_answer(model, row.answer.ids)) : Json(nullptr);
  out["finish"] = engine::name(row.answer.finish);
  if (with_skill) out["skill"] = row.binding->skill().empty() ? Json(nullptr) : Json(row.binding->skill());
  if (!row.binding->task().empty()) out["task"] = row.binding->task();
  return out;
}

std::string sentence(const Error& error) { return fmt::format("{}: {}", name(error.kind()), error.what()); }

// Writes finished rows in the order of the requests, to standard output or into a file that appears when all are done.
class Output {
 public:
  explicit Output(const std::string& path) {
    if (!path.empty()) file_ = std::make_unique<AtomicFile>(FileSystem::real(), path);
  }
  /// `id`: the request's, first in the line.
  void line(const Json& id, const Json& row) {
    std::string text = row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!id.is_null()) text.replace(0, 1, "{\"id\":" + cmf::write_json(id) + (row.empty() ? "" : ","));
    if (file_) {
      file_->file().append(Bytes(text));
    } else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
      fail(ErrorKind::Io, "standard output: could not be written");
    }
  }
  void commit() {
    if (file_) file_->commit();
  }

 private:
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace

int run_batch(const Arguments& arguments) {
  Common common;
  ModelFlags model_flags;
  SamplerFlags sampler;
  std::string input, output;
  uint64_t parallel = 8, tokens = 1024;
  bool ignore_eos = false;
  Flags flags("batch", "Answer many requests together, one JSON object a line",
              {"cortiq batch model.cmf requests.jsonl --greedy",
               "cortiq batch swarm.cmf mixed.jsonl -o answers.jsonl --parallel 16"});
  model_flags.declare(flags);
  flags
      .positional("input", input,
                  "requests: {\"id\"?, \"messages\" | \"prompt\" | \"ids\", \"n\"?, \"skill\"?, \"task\"?, \"blend\"?, "
                  "\"raw\"?, sampling…}; - is standard input")
      .option("-o,--output", output, "file to write (default: standard output)")
      .option("--parallel", parallel, "sequences decoded together (default 8)")
      .option("-n,--tokens", tokens, "tokens at most, for rows that don't say (default 1024)")
      .flag("--ignore-eos", ignore_eos, "do not stop at end tokens");
  sampler.declare(flags);
  model_flags.declare_mtp(flags);
  common.declare_threads(flags);
  common.declare_progress(flags);
  if (!flags.parse(arguments)) return 0;
  if (parallel == 0 || parallel > 4096) fail(ErrorKind::Usage, "--parallel {}: expected 1 to 4096", parallel);
  if (!output.empty()) check_output(output, {model_flags.path, input});
  engine::GenerateOptions defaults;
  defaults.max_tokens = tokens;
  defaults.sampler = sampler.resolve();
  defaults.ignore_eos = ignore_eos;

  const std::string requests = input == "-" ? read_stdin() : FileSystem::real().read_all(input, uint64_t{4} << 30);
  Session session(model_flags, common);
  const engine::Model& model = session.model();
  const bool with_skill = !model.set().header().skills.empty();
  Output out(output);
  engine::Scheduler scheduler(session.decoder(), parallel, nullptr, session.mtp());
  std::deque<Row> rows;  // requests that were read and not yet written; addresses stay
  size_t at = 0;
  const auto submit = [&](std::string_view line) {
    Row& row = rows.emplace_back();
    try {
      const Json request = parse_json(line, "request");
      if (!request.is_object()) fail(ErrorKind::Parse, "request: expected a JSON object");
      if (request.contains("id")) row.id = request["id"];
      // A number beyond 64 bits comes back as it was written.
      if (row.id.is_number_float()) row.id = cmf::parse_lossless_json(line, "request")["id"];
      check_keys(request);
      const engine::RoutePrompt prompt = prompt_of(model, request);
      row.binding =
          session.binding(text_of(request, "skill"), text_of(request, "task"), text_of(request, "blend"), &prompt);
      engine::Request one;
      one.prompt = prompt.chat;
      one.binding = row.binding;
      one.options = options_of(request, defaults);
      one.done = [&row](engine::Generated&& answer) {
        row.answer = std::move(answer);
        row.done = true;
      };
      one.failed = [&row](const Error& error) {
        row.error = sentence(error);
        row.done = true;
      };
      scheduler.submit(std::move(one));
    } catch (const Error& error) {
      row.error = sentence(error);
      row.done = true;
    }
  };
  while (true) {
    while (rows.size() < 4 * parallel && at < requests.size()) {
      const size_t end = std::min(requests.find('\n', at), requests.size());
      const std::string_view line = std::string_view(requests).substr(at, end - at);
      at = end + 1;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) submit(line);
    }
    while (!rows.empty() && rows.front().done) {
      out.line(rows.front().id, result_of(model, rows.front(), with_skill));
      rows.pop_front();
    }
    if (rows.empty() && at >= requests.size()) break;
    interruption().check();
    scheduler.step();
  }
  for (const auto& one : session.warnings()) warn(one);
  session.finish();
  out.commit();
  return 0;
}

}  // namespace cortiq::cli
