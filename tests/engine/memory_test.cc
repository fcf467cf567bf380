#include <fcntl.h>
#include <sys/mman.h>

#include <set>

#include "count_allocations.h"
#include "kernels/elementwise.h"
#include "made_model.h"

// What costs nothing: steps of decoding allocate nothing, experts and skills that nobody chose are not touched.

namespace cortiq::engine {
namespace {

class Steps : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Steps, of_decoding_allocate_nothing) {
  const auto model = model_of(GetParam().first, GetParam().second);
  Decoder decoder(model, pool(), {});
  const auto sequence = decoder.sequence(model->backbone());
  uint32_t id = 1;
  uint64_t counted = 0;
  for (int step = 0; step < 100; ++step) {
    const Piece piece{sequence.get(), {&id, 1}, Piece::Logits::Last};
    const uint64_t before = allocations();
    decoder.forward({&piece, 1});
    // The first steps give buffers their size; a page of keys comes every 64 positions, and lists double now and then.
    if (step > 70 && step < 97) counted += allocations() - before;
    id = static_cast<uint32_t>(step % 40);
  }
  EXPECT_EQ(counted, 0u);
}
INSTANTIATE_TEST_SUITE_P(Models, Steps,
                         testing::Values(std::pair("dense/llama-tied-gqa", "q8"), std::pair("dense/gemma3-new", "f32"),
                                         std::pair("hybrid/qwen3_next", "q4tp"), std::pair("hybrid/laguna", "q8")));

// Pages of a mapping that this process has touched, from the kernel's own table.
std::vector<bool> present_pages(Bytes range) {
  const uint64_t page = 4096, first = reinterpret_cast<uint64_t>(range.data()) / page;
  const uint64_t last = (reinterpret_cast<uint64_t>(range.data()) + range.size() - 1) / page;
  std::vector<uint64_t> entries(last - first + 1);
  const int table = open("/proc/self/pagemap", O_RDONLY);
  const auto size = static_cast<ssize_t>(entries.size() * sizeof(uint64_t));
  const ssize_t got = pread(table, entries.data(), static_cast<size_t>(size), static_cast<off_t>(first * 8));
  close(table);
  std::vector<bool> present;
  if (got != size) return present;
  for (const uint64_t entry : entries) present.push_back((entry >> 63) != 0);
  return present;
}

// What has just been written lies in memory in large pieces, which a touch of one page would map whole.
const std::string& forgotten(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  EXPECT_EQ(fdatasync(file), 0);
  EXPECT_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(file);
  return path;
}

class Chosen : public Observer {
 public:
  void routed(uint64_t visit, uint64_t, std::span<const uint32_t> experts, std::span<const float>) override {
    for (const uint32_t e : experts) chosen[visit].insert(e);
  }
  std::map<uint64_t, std::set<uint32_t>> chosen;
};

TEST(Residency, only_chosen_experts_are_touched) {
  const uint64_t experts = 32;
  const std::string path = MadeModel(256, 256, 1, experts).write();  // 256 KiB a matrix
  const auto model = Model::load(forgotten(path));
  Decoder decoder(model, pool(), {});
  const auto sequence = decoder.sequence(model->backbone());
  Chosen seen;
  std::vector<uint32_t> ids = {1, 2, 3};
  for (int step = 0; step < 8; ++step) {
    const Piece piece{sequence.get(), ids, Piece::Logits::Last};
    decoder.forward({&piece, 1}, &seen);
    ids.assign(1, static_cast<uint32_t>(kernels::argmax(decoder.logits(0).data(), model->vocab())));
  }
  const auto& chosen = seen.chosen[0];
  ASSERT_LT(chosen.size(), experts);
  const uint64_t margin = 16;  // pages: the system maps 64 KiB around a touched one
  for (uint32_t e = 0; e < experts; ++e) {
    for (const char* role : {"gate", "up", "down"}) {
      const cmf::Tensor* tensor =
          model->set().find("model.layers.0.mlp.experts." + std::to_string(e) + "." + role + "_proj.weight");
      const auto present = present_pages(model->set().payload(*tensor));
      ASSERT_EQ(present.size(), 64u) << "no page table to look at";
      const auto inside = std::count(present.begin() + margin, present.end() - margin, true);
      EXPECT_EQ(inside != 0, chosen.count(e) != 0) << role << " of expert " << e;
    }
  }
}

TEST(Residency, skills_that_nobody_uses_are_not_touched) {
  MadeModel made(256, 256, 1);
  const std::string name = "model.layers.0.mlp.gate_proj.weight";
  made.add("skill.one." + name, {256, 256});
  made.add("skill.two." + name, {256, 256});
  const Json skills = Json::parse(R"([{"id":"one","name":"one"},{"id":"two","name":"two"}])");
  const auto model = Model::load(forgotten(made.write(&skills)));
  Decoder decoder(model, pool(), {});
  BindingSpec spec;
  spec.skill = "one";
  const auto binding = model->bind(spec);
  greedy(decoder, binding, {1, 2, 3}, 4);
  const auto touched = [&](const std::string& tensor) {
    const auto present = present_pages(model->set().payload(*model->set().find(tensor)));
    return std::count(present.begin() + 16, present.end() - 16, true);
  };
  EXPECT_GT(touched("skill.one." + name), 0);
  EXPECT_EQ(touched("skill.two." + name), 0);
}

}  // namespace
}  // namespace cortiq::engine
