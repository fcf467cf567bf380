#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "base/nearest.h"

namespace cortiq::cli {

struct Flags::State {
  CLI::App app;
  std::vector<std::string> names;
};

Flags::Flags(const std::string& command, const std::string& summary, const std::vector<std::string>& examples)
    : state_(std::make_unique<State>()) {
  state_->app.name("cortiq " + command);
  state_->app.description(summary);
  std::string footer;
  for (const auto& example : examples) footer += (footer.empty() ? "Examples:\n  " : "\n  ") + example;
  state_->app.footer(footer);
  state_->app.set_help_flag("-h,--help", "show this and leave");
  state_->names.push_back("--help");
}

Flags::~Flags() = default;

namespace {

template <class Value>
CLI::Option* add(CLI::App& app, std::vector<std::string>& known, const std::string& names, Value& target,
                 const std::string& help) {
  for (auto& one : CLI::detail::split(names, ',')) known.push_back(one);
  return app.add_option(names, target, help);
}

// The library wraps -1 to a huge number; here a whole number is digits and nothing else.
void whole_number(CLI::App& app, std::vector<std::string>& known, const std::string& names, const std::string& help,
                  const std::function<void(uint64_t)>& set) {
  for (auto& one : CLI::detail::split(names, ',')) known.push_back(one);
  app.add_option_function<std::string>(
         names,
         [names, set](const std::string& word) {
           uint64_t value = 0;
           const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
           if (code != std::errc() || end != word.data() + word.size()) {
             throw CLI::ConversionError(names + ": '" + printable(word, 40) + "' is no whole number from 0 on");
           }
           set(value);
         },
         help)
      ->type_name("N");
}

}  // namespace

Flags& Flags::positional(const std::string& name, std::string& target, const std::string& help, bool required) {
  auto* option = state_->app.add_option(name, target, help);
  if (required) option->required();
  return *this;
}

Flags& Flags::flag(const std::string& names, bool& target, const std::string& help) {
  for (auto& one : CLI::detail::split(names, ',')) state_->names.push_back(one);
  state_->app.add_flag(names, target, help);
  return *this;
}

Flags& Flags::option(const std::string& names, std::string& target, const std::string& help) {
  add(state_->app, state_->names, names, target, help);
  return *this;
}
Flags& Flags::option(const std::string& names, std::optional<std::string>& target, const std::string& help) {
  add(state_->app, state_->names, names, target, help);
  return *this;
}
Flags& Flags::option(const std::string& names, uint64_t& target, const std::string& help) {
  whole_number(state_->app, state_->names, names, help, [&target](uint64_t value) { target = value; });
  return *this;
}
Flags& Flags::option(const std::string& names, std::optional<uint64_t>& target, const std::string& help) {
  whole_number(state_->app, state_->names, names, help, [&target](uint64_t value) { target = value; });
  return *this;
}
Flags& Flags::option(const std::string& names, double& target, const std::string& help) {
  add(state_->app, state_->names, names, target, help);
  return *this;
}
Flags& Flags::option(const std::string& names, std::optional<double>& target, const std::string& help) {
  add(state_->app, state_->names, names, target, help);
  return *this;
}

Flags& Flags::repeated(const std::string& names, std::vector<std::string>& target, const std::string& help) {
  add(state_->app, state_->names, names, target, help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Flags& Flags::optional_value(const std::string& names, std::optional<std::string>& target, const std::string& implicit,
                             const std::string& help) {
  for (auto& one : CLI::detail::split(names, ',')) state_->names.push_back(one);
  auto* option = state_->app.add_option_function<std::vector<std::string>>(
      names,
      [&target, implicit](const std::vector<std::string>& values) { target = values.empty() ? implicit : values[0]; },
      help);
  option->expected(0, 1);
  return *this;
}

bool Flags::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    state_->app.parse(reversed);
    return true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(state_->app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    std::string sentence = error.what();
    for (const auto& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      if (word.size() < 2 || word[0] != '-' || sentence.find(word) == std::string::npos) continue;
      if (std::find(state_->names.begin(), state_->names.end(), word) != state_->names.end()) continue;
      const std::string near = nearest(word, state_->names);
      sentence =
          fmt::format("unknown flag {}", printable(word, 60)) + (near.empty() ? "" : "; did you mean " + near + "?");
      break;
    }
    std::replace(sentence.begin(), sentence.end(), '\n', ' ');
    fail(ErrorKind::Usage, "{} (see {} --help)", sentence, state_->app.get_name());
  }
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return std::string(cortiq::nearest(word, views, word.size() / 2 + 1));
}

}  // namespace cortiq::cli
