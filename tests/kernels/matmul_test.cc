#include "kernels/matmul.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include "base/cpu.h"
#include "kernels/payload.h"
#include "kernels/workspace.h"

namespace cortiq::kernels {
namespace {

using codec::Dtype;
using test::Data;
using test::Random;

constexpr Dtype kAll[] = {Dtype::F32,     Dtype::F16,     Dtype::BF16, Dtype::Q8Row, Dtype::Q8TwoField,
                          Dtype::Q4Block, Dtype::Q4Tiled, Dtype::Q4tp, Dtype::Vbit,  Dtype::VbitRo,
                          Dtype::Q1,      Dtype::Q1s,     Dtype::Q1t};

bool any_width(Dtype dtype) {
  return dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16 || dtype == Dtype::Q8Row ||
         dtype == Dtype::Q8TwoField || dtype == Dtype::Q4Block;
}

// A payload that ends where a page without access begins, so that a kernel that reads one byte too far is noticed.
class Guarded {
 public:
  explicit Guarded(const std::vector<uint8_t>& bytes) : size_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    length_ = (size_ + page - 1) / page * page + page;
    void* data = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    map_ = static_cast<uint8_t*>(data);
    mprotect(map_ + length_ - page, page, PROT_NONE);
    std::copy(bytes.begin(), bytes.end(), map_ + length_ - page - size_);
  }
  Guarded(Guarded&& other) noexcept : map_(other.map_), size_(other.size_), length_(other.length_) {
    other.map_ = nullptr;
  }
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (map_) munmap(map_, length_);
  }
  Bytes bytes() const { return {map_ + length_ - static_cast<size_t>(sysconf(_SC_PAGESIZE)) - size_, size_}; }

 private:
  uint8_t* map_;
  size_t size_, length_;
};

struct Case {
  Dtype dtype;
  uint64_t rows, cols;
  Data data;
  Guarded payload;
  Matrix matrix;

  Case(Dtype type, uint64_t r, uint64_t c, Data d, Random& random)
      : dtype(type),
        rows(r),
        cols(c),
        data(d),
        payload(test::random_payload(type, r, c, d, random)),
        matrix(type, r, c, payload.bytes()) {}

  std::string text() const {
    return std::string(codec::name(dtype)) + " " + std::to_string(rows) + "x" + std::to_string(cols) +
           (data == Data::Extreme ? " extreme" : "");
  }
};

struct Options {
  Isa isa = Isa::Scalar;
  Mode mode = Mode::Fast;
  size_t threads = 1;
  std::vector<uint32_t> rows, columns;
};

ThreadPool& pool_of(size_t threads) {
  static ThreadPool one(1), two(2), three(3);
  return threads == 1 ? one : threads == 2 ? two : three;
}

std::vector<float> multiply(const Matrix& matrix, const std::vector<float>& x, uint64_t count, const Options& options) {
  static Workspace workspace;
  workspace.state().table = &kernels_for(options.isa);
  const uint64_t width = options.columns.empty() ? matrix.cols() : options.columns.size();
  const uint64_t outputs = options.rows.empty() ? matrix.rows() : options.rows.size();
  const uint64_t stride = outputs + 3;
  std::vector<float> y(count * stride, -7.0f);
  const Product product{&matrix, y.data(), stride, options.rows, options.columns};
  matmul({&product, 1}, {x.data(), count, width, x.size() / count}, options.mode, workspace, pool_of(options.threads));
  std::vector<float> packed;
  for (uint64_t t = 0; t < count; ++t) {
    packed.insert(packed.end(), &y[t * stride], &y[t * stride] + outputs);
    for (uint64_t i = outputs; i < stride; ++i) {
      EXPECT_EQ(y[t * stride + i], -7.0f) << "written beyond the outputs of token " << t;
    }
  }
  return packed;
}

::testing::AssertionResult same_bits(const std::vector<float>& want, const std::vector<float>& have) {
  if (want.size() != have.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(&want[i], &have[i], 4) != 0) {
      return ::testing::AssertionFailure()
             << "at " << i << " of " << want.size() << ": " << have[i] << ", not " << want[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// x as Fast mode sees it: rounded to 127 steps a group, computed here in double from the definition.
std::vector<double> rounded(const Case& c, const float* x) {
  std::vector<double> out(c.cols);
  std::vector<float> field(c.cols, 1);
  if (c.dtype == Dtype::Q8TwoField) {
    const codec::Q8TwoFieldView view(c.payload.bytes().data(), c.rows, c.cols);
    for (uint64_t i = 0; i < c.cols; ++i) field[i] = codec::load_half(view.column_field + 2 * i);
  }
  for (uint64_t g = 0; g < c.cols; g += 32) {
    float m = 0;
    const uint64_t end = std::min(c.cols, g + 32);
    for (uint64_t i = g; i < end; ++i) m = std::max(m, std::fabs(x[i] * field[i]));
    for (uint64_t i = g; i < end; ++i) {
      const double step = static_cast<double>(m) / 127;
      const double code = m > 0 ? std::nearbyint(static_cast<double>(x[i] * field[i]) / step) : 0;
      out[i] = field[i] != 0 ? code * step / static_cast<double>(field[i]) : 0;
    }
  }
  return out;
}

TEST(Matmul, definition_agrees_with_decoded_weights_in_double) {
  Random random(1);
  for (const Dtype dtype : kAll) {
    for (const uint64_t cols : {32u, 96u, 172u, 256u, 8u}) {
      if (cols % 32 != 0 && !any_width(dtype)) continue;
      const Case c(dtype, 21, cols, Data::Ordinary, random);
      const std::vector<float> x = test::random_activations(3, cols, Data::Ordinary, random);
      for (const Mode mode : {Mode::Exact, Mode::Fast}) {
        Options options;
        options.mode = mode;
        const std::vector<float> y = multiply(c.matrix, x, 3, options);
        std::vector<float> row(cols);
        for (uint64_t t = 0; t < 3; ++t) {
          const bool quantised = mode == Mode::Fast && c.matrix.integer();
          const std::vector<double> seen =
              quantised ? rounded(c, &x[t * cols]) : std::vector<double>(&x[t * cols], &x[t * cols] + cols);
          const bool overlay = quantised && (dtype == Dtype::Q1s || dtype == Dtype::Q1t);
          for (uint64_t r = 0; r < c.rows; ++r) {
            c.matrix.decode_row(r, row.data());
            double sum = 0, size = 0;
            for (uint64_t i = 0; i < cols; ++i) {
              sum += static_cast<double>(row[i]) * seen[i];
              size += std::fabs(static_cast<double>(row[i]) * seen[i]);
            }
            // An overlay's positions use x before its rounding, which this sum does not: half a step each.
            const double slack = overlay ? 0.01 * size + 1e-3 : 4e-6 * size + 1e-9;
            EXPECT_NEAR(y[t * c.rows + r], sum, slack) << c.text() << " row " << r << " token " << t;
          }
        }
      }
    }
  }
}

TEST(Matmul, rows_decode_as_the_codec_says) {
  Random random(2);
  for (const Dtype dtype : kAll) {
    for (const Data data : {Data::Ordinary, Data::Extreme}) {
      const Case c(dtype, 9, 96, data, random);
      std::vector<float> all(9 * 96), row(96);
      codec::of(dtype).decode(c.payload.bytes(), codec::Shape{9, 96}, 0, 9, all.data());
      for (uint64_t r = 0; r < 9; ++r) {
        c.matrix.decode_row(r, row.data());
        EXPECT_EQ(std::memcmp(row.data(), &all[r * 96], 96 * 4), 0) << c.text() << " row " << r;
      }
    }
  }
}

TEST(Matmul, every_instruction_set_equals_the_definition_bit_for_bit) {
  Random random(3);
  std::string levels;
  for (const Isa isa : available_isas()) levels += " " + std::string(name(isa));
  std::printf("levels compared:%s\n", levels.c_str());
  uint64_t compared = 0;
  for (const Dtype dtype : kAll) {
    for (const uint64_t cols : {8u, 32u, 64u, 96u, 128u, 160u, 172u, 480u, 544u, 1024u, 1056u, 1184u, 3072u}) {
      if (cols % 32 != 0 && !any_width(dtype)) continue;
      for (const uint64_t rows : {1u, 7u, 8u, 15u, 16u, 17u, 33u, 48u, 67u, 100u}) {
        if (cols > 1024 && rows % 16 == 0) continue;
        for (const Data data : {Data::Ordinary, Data::Extreme}) {
          const Case c(dtype, rows, cols, data, random);
          for (const uint64_t count : {1u, 2u, 3u, 5u, 8u, 9u, 13u}) {
            if (rows * cols * count > 300000) continue;
            const std::vector<float> x = test::random_activations(count, cols, data, random);
            for (const Mode mode : {Mode::Fast, Mode::Exact}) {
              if (mode == Mode::Exact && (count % 4 != 1 || !c.matrix.integer())) continue;
              Options options;
              options.mode = mode;
              const std::vector<float> want = multiply(c.matrix, x, count, options);
              for (const Isa isa : available_isas()) {
                if (isa == Isa::Scalar) continue;
                options.isa = isa;
                ASSERT_TRUE(same_bits(want, multiply(c.matrix, x, count, options)))
                    << c.text() << ", " << count << " tokens, " << name(isa) << (mode == Mode::Exact ? ", exact" : "");
                ++compared;
              }
            }
          }
        }
      }
    }
  }
  std::printf("%llu products compared\n", static_cast<unsigned long long>(compared));
}

TEST(Matmul, results_do_not_depend_on_threads_or_batch) {
  Random random(4);
  for (const Isa isa : available_isas()) {
    for (const Dtype dtype : kAll) {
      const Case c(dtype, 150, 512, Data::Ordinary, random);
      const std::vector<float> x = test::random_activations(11, 512, Data::Ordinary, random);
      Options options;
      options.isa = isa;
      const std::vector<float> together = multiply(c.matrix, x, 11, options);
      for (const size_t threads : {2u, 3u}) {
        options.threads = threads;
        EXPECT_TRUE(same_bits(together, multiply(c.matrix, x, 11, options)))
            << c.text() << " " << threads << " threads";
      }
      for (uint64_t t = 0; t < 11; ++t) {
        const std::vector<float> alone(&x[t * 512], &x[t * 512] + 512);
        EXPECT_TRUE(same_bits({&together[t * 150], &together[t * 150] + 150}, multiply(c.matrix, alone, 1, options)))
            << c.text() << " token " << t << " " << name(isa);
      }
    }
  }
}

TEST(Matmul, listed_rows_equal_those_of_the_whole_product) {
  Random random(5);
  for (const Isa isa : available_isas()) {
    for (const Dtype dtype : kAll) {
      for (const uint64_t cols : {96u, 1056u}) {
        const Case c(dtype, 70, cols, Data::Ordinary, random);
        for (const uint64_t count : {1u, 4u, 10u}) {
          const std::vector<float> x = test::random_activations(count, cols, Data::Ordinary, random);
          Options options;
          options.isa = isa;
          options.threads = 2;
          const std::vector<float> all = multiply(c.matrix, x, count, options);
          for (const uint64_t keep : {2u, 5u, 40u}) {
            options.rows.clear();
            for (uint32_t r = 0; r < 70; ++r) {
              if (random.below(keep) == 0) options.rows.push_back(r);
            }
            if (options.rows.empty()) options.rows.push_back(69);
            std::vector<float> want;
            for (uint64_t t = 0; t < count; ++t) {
              for (const uint32_t r : options.rows) want.push_back(all[t * 70 + r]);
            }
            EXPECT_TRUE(same_bits(want, multiply(c.matrix, x, count, options))) << c.text() << " " << name(isa);
          }
        }
      }
    }
  }
}

TEST(Matmul, unlisted_columns_are_zeros_in_fast_mode_and_absent_in_exact) {
  Random random(6);
  for (const Isa isa : available_isas()) {
    for (const Dtype dtype : kAll) {
      const uint64_t rows = 40, cols = 512;
      const Case c(dtype, rows, cols, Data::Ordinary, random);
      Options listed, full;
      listed.isa = full.isa = isa;
      for (uint32_t i = 0; i < cols; ++i) {
        if (i / 32 % 3 != 1 && random.below(3) != 0) listed.columns.push_back(i);
      }
      for (const uint64_t count : {1u, 6u}) {
        const uint64_t width = listed.columns.size();
        const std::vector<float> x = test::random_activations(count, width, Data::Ordinary, random);
        if (c.matrix.integer()) {
          std::vector<float> spread(count * cols, 0);
          for (uint64_t t = 0; t < count; ++t) {
            for (uint64_t i = 0; i < width; ++i) spread[t * cols + listed.columns[i]] = x[t * width + i];
          }
          EXPECT_TRUE(same_bits(multiply(c.matrix, spread, count, full), multiply(c.matrix, x, count, listed)))
              << c.text() << " " << name(isa);
        }
        // The cut matrix, as f32.
        std::vector<float> cut(rows * width), row(cols);
        for (uint64_t r = 0; r < rows; ++r) {
          c.matrix.decode_row(r, row.data());
          for (uint64_t i = 0; i < width; ++i) cut[r * width + i] = row[listed.columns[i]];
        }
        const Matrix small(Dtype::F32, rows, width, Bytes(reinterpret_cast<uint8_t*>(cut.data()), cut.size() * 4));
        Options exact = listed;
        exact.mode = Mode::Exact;
        EXPECT_TRUE(same_bits(multiply(small, x, count, full), multiply(c.matrix, x, count, exact)))
            << c.text() << " " << name(isa);
      }
    }
  }
}

TEST(Matmul, products_of_a_group_equal_each_alone) {
  Random random(7);
  for (const Isa isa : available_isas()) {
    std::vector<Case> cases;
    for (const Dtype dtype : kAll) cases.emplace_back(dtype, 50, 256, Data::Ordinary, random);
    for (const uint64_t count : {1u, 7u}) {
      const std::vector<float> x = test::random_activations(count, 256, Data::Ordinary, random);
      Workspace workspace;
      workspace.state().table = &kernels_for(isa);
      std::vector<std::vector<float>> y(cases.size(), std::vector<float>(count * 50));
      std::vector<Product> group;
      for (size_t i = 0; i < cases.size(); ++i) group.push_back({&cases[i].matrix, y[i].data(), 50, {}, {}});
      matmul(group, {x.data(), count, 256, 256}, Mode::Fast, workspace, pool_of(3));
      for (size_t i = 0; i < cases.size(); ++i) {
        Options options;
        options.isa = isa;
        EXPECT_TRUE(same_bits(multiply(cases[i].matrix, x, count, options), y[i])) << cases[i].text();
      }
    }
  }
}

TEST(Matmul, a_broken_activation_never_gives_a_clean_number) {
  Random random(8);
  for (const Isa isa : available_isas()) {
    for (const Dtype dtype : kAll) {
      const Case c(dtype, 5, 64, Data::Ordinary, random);
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        std::vector<float> x = test::random_activations(1, 64, Data::Ordinary, random);
        x[40] = bad;
        Options options;
        options.isa = isa;
        for (const float y : multiply(c.matrix, x, 1, options)) EXPECT_FALSE(std::isfinite(y)) << c.text();
      }
    }
  }
}

TEST(Matmul, activations_too_small_to_divide_by_count_as_zero) {
  Random random(9);
  const Case c(Dtype::Q8Row, 4, 32, Data::Ordinary, random);
  for (const float tiny : {1e-45f, 0x1p-126f, 0x1.fffffep-101f}) {
    for (const float y : multiply(c.matrix, std::vector<float>(32, tiny), 1, {})) EXPECT_EQ(y, 0.0f);
  }
  bool any = false;
  for (const float y : multiply(c.matrix, std::vector<float>(32, 0x1p-100f), 1, {})) any |= y != 0;
  EXPECT_TRUE(any);
}

TEST(Matmul, a_product_of_the_wrong_width_is_refused) {
  Random random(10);
  const Case c(Dtype::Q8Row, 4, 64, Data::Ordinary, random);
  const std::vector<float> x(63, 1.0f);
  std::vector<float> y(4);
  Workspace workspace;
  const Product product{&c.matrix, y.data(), 4, {}, {}};
  EXPECT_ANY_THROW(matmul({&product, 1}, {x.data(), 1, 63, 63}, Mode::Fast, workspace, pool_of(1)));
}

}  // namespace
}  // namespace cortiq::kernels
