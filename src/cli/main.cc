#include <fmt/format.h>

#include <new>
#include <system_error>

#include "base/cpu.h"
#include "base/error.h"
#include "base/file_system.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "cortiq/version.h"

namespace cortiq::cli {
namespace {

int help() {
  fmt::print("cortiq {}: write, prove, grow and run CMF v2 model files\n\nusage: cortiq COMMAND FILE [flags]\n\n",
             CORTIQ_VERSION);
  for (const Command& command : commands()) fmt::print("  {:<12} {}\n", command.name, command.summary);
  fmt::print("\ncortiq COMMAND --help shows a command's flags and examples.\n");
  return 0;
}

int version() {
  std::string levels;
  for (const Isa isa : available_isas()) levels += (levels.empty() ? "" : ", ") + std::string(name(isa));
  fmt::print("cortiq {} ({})\ninstruction sets: {}; in use: {}\n", CORTIQ_VERSION, CORTIQ_COMMIT, levels,
             name(active_isa()));
  return 0;
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) fail(ErrorKind::Usage, "no command; cortiq --help lists them");
  const std::string& word = arguments.front();
  if (word == "--help" || word == "-h" || word == "help") return help();
  if (word == "--version" || word == "version") return version();
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == word) return command.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(command.name);
  }
  const std::string near = nearest(word, names);
  fail(ErrorKind::Usage, "unknown command '{}'{}; cortiq --help lists them", printable(word, 60),
       near.empty() ? "" : "; did you mean '" + near + "'?");
}

int report(ErrorKind kind, std::string_view sentence) {
  const Style style = style_of(stderr);
  std::fflush(stdout);
  // fputs and not fmt::print, which throws when stderr cannot be written either.
  std::fputs(fmt::format("{}error:{} {}: {}\n", style.red, style.reset, name(kind), one_line(sentence)).c_str(),
             stderr);
  if (kind == ErrorKind::Cancelled) return 130;
  return kind == ErrorKind::Usage ? 2 : 1;
}

}  // namespace

int main(const Arguments& arguments) {
  guard_mappings();
  watch_signals();
  try {
    active_isa();  // a wrong CORTIQ_ISA is a usage error here; kernels could only end the program
    const int status = dispatch(arguments);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      fail(ErrorKind::Io, "standard output: could not be written to the end");
    return status;
  } catch (const Error& error) {
    return report(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ErrorKind::Io,
                  "out of memory; a smaller model, a shorter context or fewer parallel sequences need less");
  } catch (const std::system_error& error) {  // what fmt::print throws
    return report(ErrorKind::Io, fmt::format("standard output: {}", error.what()));
  } catch (const std::exception& error) {
    return report(ErrorKind::Io, fmt::format("unexpected: {}", error.what()));
  }
}

}  // namespace cortiq::cli

int main(int count, char** values) { return cortiq::cli::main({values + 1, values + count}); }
