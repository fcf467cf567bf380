#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cortiq::cli {

/// What a command accepts: declare the flags, then parse. One door to the argument library, so that its weight is
/// compiled once. Every command has --help, with the examples given here.
class Flags {
 public:
  /// `summary`: one line; `examples`: whole command lines, shown by --help.
  Flags(const std::string& command, const std::string& summary, const std::vector<std::string>& examples);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  Flags& positional(const std::string& name, std::string& target, const std::string& help, bool required = true);
  Flags& flag(const std::string& names, bool& target, const std::string& help);
  Flags& option(const std::string& names, std::string& target, const std::string& help);
  Flags& option(const std::string& names, std::optional<std::string>& target, const std::string& help);
  Flags& option(const std::string& names, uint64_t& target, const std::string& help);
  Flags& option(const std::string& names, std::optional<uint64_t>& target, const std::string& help);
  Flags& option(const std::string& names, double& target, const std::string& help);
  Flags& option(const std::string& names, std::optional<double>& target, const std::string& help);
  /// May be given several times; values in order.
  Flags& repeated(const std::string& names, std::vector<std::string>& target, const std::string& help);
  /// Like option, but the value may be left out; then `target` becomes `implicit`.
  Flags& optional_value(const std::string& names, std::optional<std::string>& target, const std::string& implicit,
                        const std::string& help);

  /// Parses the arguments after the command's name. False: help was printed and there is nothing to do. Usage, naming
  /// the nearest valid flag, for anything that does not fit.
  bool parse(const std::vector<std::string>& arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The entry of `names` that a person most likely meant, or empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace cortiq::cli
