#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"

// A test names the options it cares about; the others have their defaults.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace cortiq::convert {

inline std::string data(const std::string& name) { return std::string(CORTIQ_TEST_DATA) + "/convert/" + name; }

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

/// Kind and sentence of the Error an action throws; kind "none" if it throws none.
struct Refusal {
  std::string kind = "none", text;
};
template <class Action>
Refusal refusal_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return {std::string(name(error.kind())), error.what()};
  }
  return {};
}

/// A directory of its own that is gone afterwards.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cortiq-convert-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no scratch directory");
    root_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  void write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
  }

 private:
  std::string root_;
};

}  // namespace cortiq::convert
