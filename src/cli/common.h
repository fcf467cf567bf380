#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/flags.h"
#include "cli/terminal.h"

namespace cortiq::cli {

/// Flags that most commands share.
struct Common {
  bool json = false, quiet = false, verbose = false;
  uint64_t threads = 0;

  void declare_json(Flags& flags) { flags.flag("--json", json, "one JSON document on standard output"); }
  void declare_threads(Flags& flags) {
    flags.option("--threads", threads, "threads to use (default: what the machine and its control groups allow)");
  }
  void declare_progress(Flags& flags) {
    flags.flag("-q,--quiet", quiet, "no progress and no closing line");
    flags.flag("-v,--verbose", verbose, "say more");
  }
  std::unique_ptr<Progress> progress() const { return terminal_progress(quiet || json); }
};

/// Prints a document on one line, with invalid UTF-8 replaced.
void print_json(const Json& document);

/// Warnings of a finished command: into the document with --json, onto the terminal otherwise.
void add_warnings(Json& document, const std::vector<std::string>& warnings);

/// Refuses, before any work, an output that cannot be written or that is one of the inputs (cases row 54 and 55).
void check_output(const std::string& output, const std::vector<std::string>& inputs);

/// "1,2,3", or separated by white space, as ids; Usage naming the entry that is none.
std::vector<uint32_t> parse_ids(std::string_view text, std::string_view what);

/// Runs one of a command's own commands (`mask add`, `skill list`).
struct Subcommand {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>&);
};
int run_subcommand(const std::string& command, const std::vector<Subcommand>& table,
                   const std::vector<std::string>& arguments);

}  // namespace cortiq::cli
