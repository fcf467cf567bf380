// Speaks the line protocol that benchmark harnesses drive engines with: commands on standard input, one JSON line each.
//
//   bench_line MODEL.cmf [THREADS] [exact] [kv=q8] [huge]
//     tg P N          N tokens one by one after a prompt of P
//     pp N            prefill of N tokens
//     batch B P N     B sequences at once, N steps after P
//     long C N        prefill of C tokens, then N tokens at that depth
//     rss             memory of this process
//     quit
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/decoder.h"
#include "kernels/elementwise.h"

namespace {

using namespace cortiq;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage used;
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

class Engine {
 public:
  Engine(const std::string& path, size_t threads, const engine::DecoderOptions& options, FileSystem& files)
      : pool_(threads),
        model_(engine::Model::load(path, {}, files)),
        decoder_(model_, pool_, options),
        binding_(model_->backbone()) {}

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    uint64_t a = 0, b = 0, c = 0;
    words >> command >> a >> b >> c;
    if (command == "pp") return prefill(a);
    if (command == "tg") return decode("tg", 1, a, b);
    if (command == "batch") return decode("batch", a, b, c);
    if (command == "long") return decode("long", 1, a, b);
    if (command == "rss") return memory();
    return R"({"error":"unknown command"})";
  }

 private:
  uint32_t token(uint64_t i) const { return static_cast<uint32_t>((i * 7919 + 13) % model_->vocab()); }

  std::vector<uint32_t> prompt(uint64_t n, uint64_t seed) const {
    std::vector<uint32_t> ids(n);
    for (uint64_t i = 0; i < n; ++i) ids[i] = token(seed * 1000 + i);
    return ids;
  }

  std::string rate(const char* command, double tokens, double seconds, double cpu) const {
    return fmt::format(R"({{"cmd":"{}","tok_s":{:.4f},"tok_cpu_s":{:.4f},"cpu":{:.4f}}})", command, tokens / seconds,
                       tokens / cpu * static_cast<double>(pool_.threads()),
                       cpu / seconds / static_cast<double>(pool_.threads()));
  }

  std::string prefill(uint64_t n) {
    const auto sequence = decoder_.sequence(binding_);
    const auto ids = prompt(n, 1);
    const double start = now(), used = cpu_seconds();
    decoder_.prefill(*sequence, ids);
    return rate("pp", static_cast<double>(n), now() - start, cpu_seconds() - used);
  }

  std::string decode(const char* command, uint64_t count, uint64_t length, uint64_t steps) {
    std::vector<std::unique_ptr<engine::Sequence>> sequences;
    std::vector<uint32_t> next(count);
    for (uint64_t i = 0; i < count; ++i) {
      sequences.push_back(decoder_.sequence(binding_));
      decoder_.prefill(*sequences[i], prompt(length, i));
      next[i] = choose(0);
    }
    std::vector<engine::Piece> batch(count);
    const double start = now(), used = cpu_seconds();
    for (uint64_t step = 0; step < steps; ++step) {
      for (uint64_t i = 0; i < count; ++i) batch[i] = {sequences[i].get(), {&next[i], 1}, engine::Piece::Logits::Last};
      decoder_.forward(batch);
      for (uint64_t i = 0; i < count; ++i) next[i] = choose(i);
    }
    return rate(command, static_cast<double>(count * steps), now() - start, cpu_seconds() - used);
  }

  uint32_t choose(uint64_t row) {
    const auto logits = decoder_.logits(row);
    return static_cast<uint32_t>(kernels::argmax(logits.data(), logits.size()));
  }

  static std::string memory() {
    std::ifstream status("/proc/self/status");
    std::string line, out = "{\"cmd\":\"rss\"";
    while (std::getline(status, line)) {
      for (const char* key : {"VmRSS", "RssAnon", "RssFile", "VmHWM"}) {
        if (line.rfind(key, 0) == 0)
          out += fmt::format(",\"{}_MB\":{}", key, std::stoull(line.substr(line.find(':') + 1)) / 1024);
      }
    }
    return out + "}";
  }

  ThreadPool pool_;
  std::shared_ptr<const engine::Model> model_;
  engine::Decoder decoder_;
  std::shared_ptr<const engine::Binding> binding_;
};

}  // namespace

int main(int count, char** values) {
  try {
    if (count < 2) fail(ErrorKind::Usage, "usage: bench_line MODEL.cmf [THREADS] [exact] [kv=q8] [huge]");
    size_t threads = usable_threads();
    engine::DecoderOptions options;
    FileSystem* files = &FileSystem::real();
    for (int i = 2; i < count; ++i) {
      const std::string word = values[i];
      if (word == "exact") {
        options.mode = kernels::Mode::Exact;
      } else if (word == "kv=q8") {
        options.kv = kernels::KvType::Q8;
      } else if (word == "huge") {
        files = &FileSystem::in_huge_pages();
      } else {
        threads = std::stoul(word);
      }
    }
    const double start = now();
    Engine engine(values[1], threads, options, *files);
    std::cout << fmt::format(R"({{"cmd":"ready","load_s":{:.4f}}})", now() - start) << std::endl;
    std::string line;
    while (std::getline(std::cin, line) && line != "quit") std::cout << engine.answer(line) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << fmt::format(R"({{"error":"{}"}})", error.what()) << std::endl;
    return 1;
  }
}
