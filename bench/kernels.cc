// bench_kernels [--threads N] [--reps N] [--mb N] [--cpu] [NAME…]
//
// Matrix products per dtype, instruction set and number of tokens. One token is judged against the read bandwidth
// (weights come from memory: copies of the matrix fill --mb), more are judged against the int8 peak; both limits are
// measured just before and after each repetition, and medians of the ratios are printed. "cache" is one token with a
// matrix that stays in the L2 cache, i.e. the arithmetic alone, one thread.
// --cpu counts processor seconds instead of wall time: for machines that do other work meanwhile.
// NAME: only lines that contain it, e.g. "q4tp" or "avx2".
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string>

#include "base/cpu.h"
#include "kernels/payload.h"
#include "kernels/workspace.h"
#include "limits.h"

namespace cortiq::bench {
namespace {

using codec::Dtype;

struct Options {
  size_t threads = 1;
  int reps = 5;
  uint64_t bytes = 128ull << 20;
  bool cpu = false;
  std::vector<std::string> names;
};

double seconds(const Options& options) {
  timespec t;
  clock_gettime(options.cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9) /
         static_cast<double>(options.cpu ? options.threads : 1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double rate(const Options& options, const std::function<double()>& work) {
  const double start = seconds(options);
  const double done = work();
  return done / (seconds(options) - start);
}

/// Anonymous memory in huge pages where the system grants them.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) fail(ErrorKind::Io, "bench_kernels: no {} bytes of memory", bytes);
    madvise(data, bytes, MADV_HUGEPAGE);
    data_ = static_cast<uint8_t*>(data);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  uint8_t* data() const { return data_; }

 private:
  size_t bytes_;
  uint8_t* data_;
};

class Machine {
 public:
  Machine(const Options& options, ThreadPool& pool) : options_(options), pool_(pool) {
    wide_ = std::find(available_isas().begin(), available_isas().end(), Isa::Avx512) != available_isas().end();
  }
  /// Bytes per second of all threads together.
  double read(const uint8_t* data, uint64_t bytes) {
    const uint64_t share = bytes / pool_.threads() / 4096 * 4096;
    return rate(options_, [&] {
      pool_.run(pool_.threads(),
                [&](size_t t) { sink_ = sink_ + (wide_ ? read_avx512 : read_avx2)(data + share * t, share); });
      return static_cast<double>(share * pool_.threads());
    });
  }
  /// int8 multiply-adds per second of all threads together.
  double multiply(Isa isa) {
    double done = 0;
    return rate(options_, [&] {
      pool_.run(pool_.threads(), [&](size_t t) {
        const double mine = multiply_adds(isa, 100000);
        if (t == 0) done = mine * static_cast<double>(pool_.threads());
      });
      return done;
    });
  }

 private:
  const Options& options_;
  ThreadPool& pool_;
  bool wide_;
  static inline volatile int64_t sink_ = 0;
};

struct Shape {
  uint64_t rows, cols;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), pool_(options.threads), one_(1), machine_(options_, pool_) {}

  void run(Dtype dtype, Shape shape, Isa isa) {
    const std::string label = fmt::format("{} {}x{} {}", codec::name(dtype), shape.rows, shape.cols, name(isa));
    for (const std::string& wanted : options_.names) {
      if (label.find(wanted) == std::string::npos) return;
    }
    workspace_.state().table = &kernels::kernels_for(isa);
    test::Random random(1);
    const std::vector<uint8_t> payload = test::random_payload(dtype, shape.rows, shape.cols, test::Data::Plain, random);
    const uint64_t size = (payload.size() + 63) / 64 * 64, copies = options_.bytes / size + 1;
    const Memory memory(size * copies);
    std::vector<kernels::Matrix> matrices;
    for (uint64_t i = 0; i < copies; ++i) {
      std::copy(payload.begin(), payload.end(), memory.data() + size * i);
      matrices.emplace_back(dtype, shape.rows, shape.cols, Bytes(memory.data() + size * i, payload.size()));
    }
    const std::vector<float> x = test::random_activations(512, shape.cols, test::Data::Ordinary, random);
    y_.resize(shape.rows * 512);

    const auto all = [&] {
      for (const kernels::Matrix& matrix : matrices) multiply(matrix, x, 1, pool_);
    };
    all();
    std::vector<double> speed, share;
    for (int i = 0; i < options_.reps; ++i) {
      const double before = machine_.read(memory.data(), size * copies);
      speed.push_back(rate(options_, [&] {
        all();
        return static_cast<double>(payload.size() * copies);
      }));
      share.push_back(2 * speed.back() / (before + machine_.read(memory.data(), size * copies)));
    }
    std::string line = fmt::format("{:30} memory {:6.1f} GB/s = {:.2f} of read, cache {:.3f} ns/group", label,
                                   median(speed) / 1e9, median(share), in_cache(dtype, shape.cols, random));
    if (matrices[0].integer()) {
      for (const uint64_t tokens : {uint64_t{2}, uint64_t{8}, uint64_t{64}, uint64_t{512}}) {
        line += fmt::format(", M{} {:.2f}", tokens, batch(matrices, x, tokens, isa));
      }
      line += " of peak";
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

 private:
  void multiply(const kernels::Matrix& matrix, const std::vector<float>& x, uint64_t tokens, ThreadPool& pool) {
    const kernels::Product product{&matrix, y_.data(), matrix.rows(), {}, {}};
    kernels::matmul({&product, 1}, {x.data(), tokens, matrix.cols(), matrix.cols()}, kernels::Mode::Fast, workspace_,
                    pool);
  }

  double in_cache(Dtype dtype, uint64_t cols, test::Random& random) {
    constexpr uint64_t kRows = 512;
    const std::vector<uint8_t> payload = test::random_payload(dtype, kRows, cols, test::Data::Plain, random);
    const kernels::Matrix matrix(dtype, kRows, cols, Bytes(payload));
    const std::vector<float> x = test::random_activations(1, cols, test::Data::Ordinary, random);
    Options cpu = options_;
    cpu.cpu = true;
    cpu.threads = 1;
    std::vector<double> times;
    for (int i = 0; i < options_.reps; ++i) {
      times.push_back(1e9 / rate(cpu, [&] {
                        for (int k = 0; k < 50; ++k) multiply(matrix, x, 1, one_);
                        return 50.0 * kRows * static_cast<double>(cols / 32);
                      }));
    }
    return median(times);
  }

  double batch(const std::vector<kernels::Matrix>& matrices, const std::vector<float>& x, uint64_t tokens, Isa isa) {
    std::vector<double> share;
    const uint64_t products = tokens >= 64 ? 2 : 8;
    for (int i = 0; i < options_.reps; ++i) {
      const double before = machine_.multiply(isa);
      const double speed = rate(options_, [&] {
        for (uint64_t k = 0; k < products; ++k) multiply(matrices[k % matrices.size()], x, tokens, pool_);
        return static_cast<double>(products * tokens * matrices[0].rows() * matrices[0].cols());
      });
      share.push_back(2 * speed / (before + machine_.multiply(isa)));
    }
    return median(share);
  }

  Options options_;
  ThreadPool pool_, one_;
  Machine machine_;
  kernels::Workspace workspace_;
  std::vector<float> y_;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&] {
      if (i + 1 == argc) fail(ErrorKind::Usage, "{} needs a number", flag);
      return std::stoull(argv[++i]);
    };
    if (flag == "--threads") {
      options.threads = number();
    } else if (flag == "--reps") {
      options.reps = static_cast<int>(number());
    } else if (flag == "--mb") {
      options.bytes = number() << 20;
    } else if (flag == "--cpu") {
      options.cpu = true;
    } else {
      options.names.push_back(flag);
    }
  }
  return options;
}

}  // namespace
}  // namespace cortiq::bench

int main(int argc, char** argv) {
  using cortiq::codec::Dtype;
  cortiq::bench::Bench bench(cortiq::bench::parse(argc, argv));
  for (const Dtype dtype : {Dtype::Q8Row, Dtype::Q8TwoField, Dtype::Q4Tiled, Dtype::Q4tp, Dtype::Q4Block, Dtype::VbitRo,
                            Dtype::Q1, Dtype::Q1t, Dtype::F16, Dtype::BF16, Dtype::F32}) {
    for (const cortiq::bench::Shape shape : {cortiq::bench::Shape{3072, 1024}, cortiq::bench::Shape{1024, 3072}}) {
      for (const cortiq::Isa isa : cortiq::available_isas()) {
        if (isa != cortiq::Isa::Scalar) bench.run(dtype, shape, isa);
      }
    }
  }
}
