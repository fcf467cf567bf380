#include "cli/common.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/file_system.h"

namespace cortiq::cli {

void print_json(const Json& document) {
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  fmt::print("{}\n", text);
}

void add_warnings(Json& document, const std::vector<std::string>& warnings) {
  document["warnings"] = Json::array();
  for (const auto& one : warnings) document["warnings"].push_back(one);
}

void check_output(const std::string& output, const std::vector<std::string>& inputs) {
  if (output.empty()) fail(ErrorKind::Usage, "no output file; give -o FILE");
  FileSystem& files = FileSystem::real();
  const std::string directory = directory_of(output);
  if (!files.exists(directory) || !files.info(directory).directory) {
    fail(ErrorKind::Io, "{}: its directory {} does not exist", output, directory);
  }
  if (files.exists(output) && files.info(output).directory) {
    fail(ErrorKind::Io, "{}: is a directory; name a file to write", output);
  }
  for (const auto& input : inputs) {
    if (same_file(files, output, input)) {
      fail(ErrorKind::Usage, "{}: is the input {} itself; write to another file and rename it", output, input);
    }
  }
}

std::vector<uint32_t> parse_ids(std::string_view text, std::string_view what) {
  std::vector<uint32_t> ids;
  constexpr std::string_view kSeparators = ", \t\r\n";
  size_t at = 0;
  while ((at = text.find_first_not_of(kSeparators, at)) != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    uint32_t id = 0;
    const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || stop != word.data() + word.size()) {
      fail(ErrorKind::Usage, "{}: '{}' is no token id", what, printable(word, 40));
    }
    ids.push_back(id);
    at = end;
  }
  if (ids.empty()) fail(ErrorKind::Usage, "{}: no token ids", what);
  return ids;
}

int run_subcommand(const std::string& command, const std::vector<Subcommand>& table,
                   const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const auto& one : table) {
    if (!arguments.empty() && arguments[0] == one.name) return one.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(one.name);
  }
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    fmt::print("usage: cortiq {} COMMAND FILE [flags]\n\n", command);
    for (const auto& one : table) fmt::print("  {:<10} {}\n", one.name, one.summary);
    return 0;
  }
  if (arguments.empty()) fail(ErrorKind::Usage, "cortiq {}: say what to do (cortiq {} --help)", command, command);
  const std::string near = nearest(arguments[0], names);
  fail(ErrorKind::Usage, "cortiq {}: unknown command '{}'{}", command, printable(arguments[0], 60),
       near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace cortiq::cli
