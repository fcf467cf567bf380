#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cmf/file.h"
#include "convert/convert.h"
#include "convert/safetensors.h"
#include "convert/support.h"

// What another writer of the format made of the same checkpoints (data/cmf/interop) must come out of this one, byte for
// byte, tensor by tensor.
namespace cortiq::convert {
namespace {

std::string theirs(const std::string& name) { return std::string(CORTIQ_TEST_DATA) + "/cmf/interop/" + name + ".cmf"; }

// These toys name an architecture that does not exist; the family is what counts.
std::shared_ptr<Checkpoint> toy(const std::string& name) {
  auto out = std::make_shared<Checkpoint>(open_huggingface(data("interop/" + name)));
  out->config.erase("architectures");
  return out;
}

struct Case {
  const char *checkpoint, *file, *quant, *defrag;
};

class Interop : public testing::TestWithParam<Case> {};

TEST_P(Interop, same_bytes) {
  const Case& one = GetParam();
  Scratch scratch;
  ThreadPool pool(2);
  ConvertOptions options{.quant = one.quant};
  if (one.defrag) options.defrag = data(std::string("interop/") + one.defrag);
  const Plan plan = make_plan(toy(one.checkpoint), options, pool);
  execute(plan, scratch.path("x.cmf"), pool, Progress::none(), Cancellation());
  const auto ours = cmf::File::open(scratch.path("x.cmf")), other = cmf::File::open(theirs(one.file));
  EXPECT_EQ(ours->tensors().size(), other->tensors().size());
  for (const cmf::Tensor& tensor : other->tensors()) {
    const cmf::Tensor* mine = ours->find(tensor.name);
    ASSERT_NE(mine, nullptr) << tensor.name;
    EXPECT_EQ(mine->dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(mine->hash, tensor.hash) << tensor.name;
  }
  EXPECT_EQ(ours->header().quant_type, other->header().quant_type);
  EXPECT_EQ(ours->header().arch.intermediate_size, other->header().arch.intermediate_size);
}

INSTANTIATE_TEST_SUITE_P(
    Files, Interop,
    testing::Values(Case{"dense", "dense-f16", "f16", nullptr}, Case{"dense", "dense-q8", "q8", nullptr},
                    Case{"dense", "dense-q8_2f", "q8_2f", nullptr}, Case{"dense", "dense-q4", "q4", nullptr},
                    Case{"dense", "dense-q4t", "q4t", nullptr}, Case{"dense", "dense-q4tp", "q4tp", nullptr},
                    Case{"dense", "dense-vbit_ro", "vbit", nullptr}, Case{"dense", "dense-q1", "q1", nullptr},
                    Case{"dense", "dense-q1s", "q1s", nullptr}, Case{"dense", "dense-q1t", "q1t", nullptr},
                    Case{"moe", "moe-f16", "f16", nullptr}, Case{"moe", "moe-q4tp", "q4tp", nullptr},
                    Case{"qwen3tied", "tied-qwen3-q8", "q8", nullptr}, Case{"dense", "defrag-q4t", "q4t", "skill-dir"},
                    Case{"dense", "defrag-q8_2f", "q8_2f", "skill-dir"},
                    Case{"dense", "defrag-auto-q8", "q8", "skill-dir-auto"}),
    [](const testing::TestParamInfo<Case>& one) {
      std::string name = one.param.file;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// The shared budget is compared row by row: a bisection ends on a row at a border, where single and double arithmetic
// part (FORMAT_FACTS §5.8); the other writer's own files agree to that.
TEST(InteropBudget, experts_share_their_bits_as_the_other_writer_does) {
  struct Wish {
    const char* file;
    bool flat, stats;
  };
  for (const Wish& wish : {Wish{"py-moe-vbit", false, false}, Wish{"py-moe-vbit-flat", true, false},
                           Wish{"py-moe-vbit-bfield", false, true}}) {
    Scratch scratch;
    ThreadPool pool(2);
    ConvertOptions options{.quant = "vbit", .vbit_flat = wish.flat};
    if (wish.stats) options.route_stats = std::string(CORTIQ_TEST_DATA) + "/cmf/interop/moe-stats.json";
    execute(make_plan(toy("moe"), options, pool), scratch.path("x.cmf"), pool, Progress::none(), Cancellation());
    const auto ours = cmf::File::open(scratch.path("x.cmf")), other = cmf::File::open(theirs(wish.file));
    uint64_t rows = 0, different = 0, bits = 0, their_bits = 0;
    for (const cmf::Tensor& tensor : other->tensors()) {
      if (tensor.name.find(".experts.") == tensor.name.npos) continue;
      const Bytes theirs_bytes = other->payload(tensor), mine = ours->payload(*ours->find(tensor.name));
      for (uint64_t r = 0; r < tensor.shape.rows(); ++r, ++rows) {
        different += mine[r] != theirs_bytes[r];
        bits += mine[r];
        their_bits += theirs_bytes[r];
      }
    }
    EXPECT_GT(rows, 1000u);
    EXPECT_LE(different, wish.flat ? 0u : 6u) << wish.file;
    EXPECT_NEAR(static_cast<double>(bits), static_cast<double>(their_bits), 6) << wish.file;
  }
}

}  // namespace
}  // namespace cortiq::convert
