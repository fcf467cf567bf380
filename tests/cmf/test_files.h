#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "cmf/verify.h"
#include "support/memory_file_system.h"

namespace cortiq::cmf {

inline std::string data_path(const std::string& name) { return std::string(CORTIQ_TEST_DATA) + "/cmf/" + name; }
inline std::string read_data(const std::string& name) { return FileSystem::real().read_all(data_path(name)); }
inline Json read_json(const std::string& name) { return Json::parse(read_data(name)); }

/// One JSON document a line.
inline std::vector<Json> read_lines(const std::string& name) {
  std::ifstream in(data_path(name));
  std::vector<Json> out;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) out.push_back(Json::parse(line));
  }
  return out;
}

inline std::string from_hex(const std::string& text) {
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return out;
}

inline void put64(std::string& bytes, size_t at, uint64_t value) { std::memcpy(bytes.data() + at, &value, 8); }
inline uint64_t get64(const std::string& bytes, size_t at) {
  uint64_t value;
  std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

/// What opening bytes as a file gives: "ok", or the error's kind and sentence.
struct Opened {
  std::string kind = "ok", sentence;
  std::shared_ptr<const File> file;
};
inline Opened open_bytes(const std::string& bytes, const std::string& name = "case.cmf") {
  MemoryFileSystem files;
  files.put(name, bytes);
  Opened out;
  try {
    out.file = File::open(name, files);
  } catch (const Error& error) {
    out.kind = std::string(cortiq::name(error.kind()));
    out.sentence = error.what();
  }
  return out;
}

inline Report verify_in(FileSystem& files, const std::string& path, const VerifyOptions& options = {}) {
  static ThreadPool pool(2);
  return verify(path, options, pool, files);
}
inline Report verify_bytes(const std::string& bytes, const std::string& name = "case.cmf") {
  MemoryFileSystem files;
  files.put(name, bytes);
  return verify_in(files, name);
}

inline std::string text_of(const Report& report) {
  std::string out;
  for (const Problem& one : report.problems) out += fmt::format("{} {}: {}\n", name(one.kind), one.where, one.message);
  for (const std::string& one : report.warnings) out += "warning: " + one + "\n";
  return out;
}
inline bool reports(const Report& report, const std::string& kind, const std::string& where = "") {
  for (const Problem& one : report.problems) {
    if (name(one.kind) == kind && one.where.find(where) != std::string::npos) return true;
  }
  return false;
}
inline bool warns(const Report& report, const std::string& word) {
  for (const std::string& one : report.warnings) {
    if (one.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace cortiq::cmf
