// bench_text TOKENIZER.json TEXT…: seconds to load a tokenizer, and megabytes of each text that one thread encodes in a
// processor second, in pieces of 16 KB cut at line ends. One JSON line.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file_system.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace {

using namespace cortiq;

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Json measure(const text::Tokenizer& tokenizer, std::string_view whole) {
  size_t ids = 0;
  const double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (size_t at = 0; at < whole.size();) {
    size_t end = std::min(at + 16384, whole.size());
    if (const size_t line = whole.rfind('\n', end - 1); end < whole.size() && line != whole.npos && line > at)
      end = line + 1;
    ids += tokenizer.encode(whole.substr(at, end - at), false).size();
    at = end;
  }
  const double used = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
  return {{"MB_s", static_cast<double>(whole.size()) / used / 1e6}, {"ids", ids}};
}

}  // namespace

int main(int count, char** values) {
  try {
    const std::string json = FileSystem::real().read_all(values[1]);
    const double start = seconds(CLOCK_MONOTONIC);
    const auto tokenizer = text::Tokenizer::parse(json, values[1]);
    Json out = {{"load_s", seconds(CLOCK_MONOTONIC) - start}, {"texts", Json::array()}};
    for (int i = 2; i < count; ++i) out["texts"].push_back(measure(*tokenizer, FileSystem::real().read_all(values[i])));
    fmt::print("{}\n", out.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
