// This machine's limits on demand, for harnesses that measure engines between two probes: commands on standard input,
// one JSON line each.
//
//   bench_probe [THREADS]
//     bw      plain read of memory by all threads    {"value": bytes a second}
//     peak    int8 multiply-adds from registers      {"value": multiply-adds a second}
//     quit
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <string>

#include "base/cpu.h"
#include "limits.h"

int main(int count, char** values) {
  using namespace cortiq;
  ThreadPool pool(count > 1 ? std::stoul(values[1]) : usable_threads());
  bench::Limits limits(pool);
  std::cout << R"({"cmd":"ready"})" << std::endl;
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    const double value = line == "bw" ? limits.bandwidth(pool.threads()) : line == "peak" ? limits.int8_peak() : 0;
    std::cout << fmt::format(R"({{"cmd":"{}","value":{:.6g}}})", line, value) << std::endl;
  }
  return 0;
}
