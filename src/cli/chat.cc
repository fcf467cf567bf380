#include "cli/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "engine/prompt.h"

namespace cortiq::cli {

AnswerPrinter::AnswerPrinter(const engine::Model& model, bool print) : model_(model), print_(print) {
  if (model.tokenizer()) decoder_ = std::make_unique<text::StreamDecoder>(model.tokenizer(), true);
}

bool AnswerPrinter::token(uint32_t id) {
  if (!decoder_ || model_.is_stop(id)) return true;
  const std::string part = decoder_->push(id);
  text_ += part;
  if (!print_ || part.empty()) return true;
  return std::fwrite(part.data(), 1, part.size(), stdout) == part.size() && std::fflush(stdout) == 0;
}

void AnswerPrinter::close() {
  if (!decoder_) return;
  const std::string rest = decoder_->flush();
  text_ += rest;
  if (print_) fmt::print("{}\n", rest);
}

void print_closing_line(const engine::Generated& answer, const engine::Binding& binding, const std::string& remarks) {
  const Style style = style_of(stdout);
  const auto rate = [](uint64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  std::string line = fmt::format("{} tokens", answer.ids.size());
  if (answer.ids.size() > 1) line += fmt::format(" at {:.1f}/s", rate(answer.ids.size() - 1, answer.decode_seconds));
  const uint64_t fresh = answer.prompt_tokens - answer.reused_tokens;
  line += fmt::format(" · prompt {} at {:.0f}/s", answer.prompt_tokens, rate(fresh, answer.prompt_seconds));
  if (answer.drafted > 0) line += fmt::format(" · drafts {} of {} accepted", answer.accepted, answer.drafted);
  if (!binding.skill().empty()) line += fmt::format(" · skill {}", binding.skill());
  if (!binding.task().empty()) line += fmt::format(" · mask {}", printable(binding.task(), 60));
  if (!remarks.empty()) line += " · " + remarks;
  fmt::print("{}[{} · {}]{}\n", style.dim, line, engine::name(answer.finish), style.reset);
}

namespace {

constexpr const char* kHelp =
    "  /clear          forget the conversation\n"
    "  /system TEXT    set the system message and forget the conversation\n"
    "  /help           this\n"
    "  /exit           leave (or Ctrl-D)\n"
    "  Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.\n";

enum class Input { Line, End, Interrupted };

// One line of the terminal; a signal interrupts the wait.
Input read_line(std::string& line) {
  line.clear();
  char c;
  while (true) {
    const ssize_t got = ::read(0, &c, 1);
    if (got < 0 && errno == EINTR) return Input::Interrupted;
    if (got <= 0) return line.empty() ? Input::End : Input::Line;
    if (c == '\n') return Input::Line;
    line += c;
  }
}

Input read_message(std::string& message, const Style& style) {
  message.clear();
  while (true) {
    fmt::print("{}{}{} ", style.bold, message.empty() ? ">" : "…", style.reset);
    std::fflush(stdout);
    std::string line;
    const Input input = read_line(line);
    if (input != Input::Line) return input;
    if (line.ends_with('\\')) {
      line.back() = '\n';
      message += line;
      continue;
    }
    message += line;
    return Input::Line;
  }
}

Json fresh_history(const std::string& system) {
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

// The prompt of the conversation; drops the oldest exchange, never the system message, until it fits with some room
// for the answer.
std::vector<uint32_t> fitting_prompt(const engine::Model& model, Json& messages) {
  while (true) {
    std::vector<uint32_t> prompt = engine::encode_chat(model, messages);
    const size_t first = !messages.empty() && messages[0]["role"] == "system" ? 1 : 0;
    const uint64_t room = std::min<uint64_t>(256, model.context() / 4);
    if (prompt.size() + room <= model.context() || messages.size() < first + 3) return prompt;
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                   messages.begin() + static_cast<std::ptrdiff_t>(first) + 2);
    warn("the conversation is longer than the context: its oldest exchange was forgotten");
  }
}

}  // namespace

int converse(Session& session, const engine::GenerateOptions& options, const std::string& system, bool raw) {
  const engine::Model& model = session.model();
  if (!model.tokenizer()) fail(ErrorKind::Unsupported, "the file holds no tokenizer; give --ids");
  const Style style = style_of(stdout);
  for (const auto& one : session.warnings()) warn(one);
  fmt::print("{}{}, context {}. /help shows what there is.{}\n", style.dim, printable(model.arch().arch_name, 60),
             with_commas(model.context()), style.reset);
  Json messages = fresh_history(system);
  std::string instruction = system, line;
  engine::PrefixCache prefixes(4);
  bool leaving = false;
  while (true) {
    const Input input = read_message(line, style);
    if (input == Input::End) break;
    if (input == Input::Interrupted) {
      if (leaving) return 130;
      leaving = true;
      interruption().reset();
      fmt::print("\n{}Ctrl-C once more, Ctrl-D or /exit leaves{}\n", style.dim, style.reset);
      continue;
    }
    leaving = false;
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit" || line == "/bye") break;
    if (line == "/help") {
      fmt::print("{}", kHelp);
      continue;
    }
    if (line == "/clear" || line.starts_with("/system ")) {
      if (line != "/clear") instruction = line.substr(8);
      messages = fresh_history(instruction);
      continue;
    }
    if (line.starts_with("/") && line.find(' ') == std::string::npos && line.find('/', 1) == std::string::npos) {
      fmt::print("unknown command {}; /help shows what there is\n", printable(line, 40));
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    try {
      const engine::RoutePrompt route{raw ? text::Ids{} : fitting_prompt(model, messages),
                                      engine::encode_text(model, line)};
      const std::vector<uint32_t>& prompt = raw ? route.raw : route.chat;
      const auto binding = session.binding(&route);
      AnswerPrinter printer(model, true);
      const engine::Generated answer = engine::generate(
          session.decoder(), prompt, binding, options, interruption(), [&](uint32_t id) { return printer.token(id); },
          &prefixes, session.mtp());
      printer.close();
      print_closing_line(answer, *binding, session.remarks());
      interruption().reset();
      messages.push_back({{"role", "assistant"}, {"content", printer.text()}});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Cancelled) warn(error.what());
      interruption().reset();
      messages.erase(messages.size() - 1);
    }
  }
  fmt::print("\n");
  session.finish();
  return 0;
}

}  // namespace cortiq::cli
