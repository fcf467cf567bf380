#include "made_model.h"
#include "support/memory_file_system.h"

// What the engine does not execute, or would execute wrongly, is refused when the model is loaded, by name.
namespace cortiq::engine {
namespace {

using Change = std::function<void(MadeModel&)>;

void refused(ErrorKind kind, const std::string& named, const Change& change, uint64_t experts = 0) {
  MadeModel made(64, 96, 2, experts);
  change(made);
  try {
    Model::load(made.write());
    ADD_FAILURE() << named << ": loaded";
  } catch (const Error& error) {
    EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
  }
}

TEST(Load, the_unchanged_models_run) {
  for (const uint64_t experts : {0u, 4u}) {
    const auto model = Model::load(MadeModel(64, 96, 2, experts).write());
    Decoder decoder(model, pool(), {});
    EXPECT_EQ(greedy(decoder, model->backbone(), {1, 2, 3}, 5).ids.size(), 5u);
  }
}

// Passes everything on and remembers which ranges were to be mapped before anything touches them.
class WatchedFile final : public MappedFile {
 public:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  WatchedFile(std::shared_ptr<const MappedFile> file, Ranges& ranges) : file_(std::move(file)), ranges_(ranges) {}
  Bytes bytes() const noexcept override { return file_->bytes(); }
  const std::string& path() const noexcept override { return file_->path(); }
  void advise(uint64_t offset, uint64_t length, Advice advice) const noexcept override {
    if (advice == Advice::MapIn) ranges_.emplace_back(offset, offset + length);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  Ranges& ranges_;
};

TEST(Load, experts_are_not_mapped_ahead_and_everything_mapped_is_a_matrix) {
  // Large enough that there is time to map everything beside it.
  std::string tokenizer = R"({"model":{"type":"WordLevel","unk_token":"0","vocab":{"0":0)";
  for (int i = 1; i < 100'000; ++i) tokenizer += fmt::format(R"(,"{}":{})", i, i);
  const std::string path = MadeModel(64, 96, 2, 4).write(nullptr, tokenizer + "}}}");
  WatchedFile::Ranges ranges;
  class Watching final : public MemoryFileSystem {
   public:
    explicit Watching(WatchedFile::Ranges& ranges) : ranges_(ranges) {}
    std::shared_ptr<const MappedFile> map(const std::string& name) override {
      return std::make_shared<WatchedFile>(FileSystem::real().map(name), ranges_);
    }

   private:
    WatchedFile::Ranges& ranges_;
  } files(ranges);
  for (int i = 0; i < 20 && ranges.empty(); ++i) Model::load(path, {}, files);
  EXPECT_TRUE(usable_threads() == 1 || !ranges.empty());
  const auto model = Model::load(path);
  for (const auto& [begin, end] : ranges) {
    bool known = false;
    for (const cmf::Tensor& tensor : model->set().tensors()) {
      const uint64_t at = model->set().first().envelope().data.offset + tensor.offset;
      if (end <= at || begin >= at + tensor.nbytes) continue;
      EXPECT_EQ(tensor.name.find(".experts."), std::string_view::npos) << tensor.name;
      known = true;
    }
    EXPECT_TRUE(known);
  }
}

TEST(Load, missing_tensors_are_named) {
  for (const cmf::Declaration& tensor : MadeModel().tensors) {
    refused(ErrorKind::Parse, tensor.name, [&](MadeModel& made) { made.remove(tensor.name); });
  }
}

TEST(Load, wrong_shapes_are_named_with_both) {
  for (const char* tensor : {"self_attn.k_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"}) {
    const std::string name = std::string("model.layers.1.") + tensor + ".weight";
    refused(ErrorKind::Parse, "[40, 64], expected", [&](MadeModel& made) { made.find(name).shape = {40, 64}; });
  }
  refused(ErrorKind::Parse, "q_proj.weight' has 65 rows", [](MadeModel& made) {
    made.find("model.layers.0.self_attn.q_proj.weight").shape = {65, 64};
  });
  refused(ErrorKind::Parse, "model.norm.weight", [](MadeModel& made) { made.find("model.norm.weight").shape = {63}; });
  refused(ErrorKind::Parse, "lm_head.weight", [](MadeModel& made) { made.find("lm_head.weight").shape = {49, 64}; });
  refused(ErrorKind::Parse, "q_norm",
          [](MadeModel& made) { made.add("model.layers.0.self_attn.q_norm.weight", {16}); });
  refused(ErrorKind::Parse, "g_proj.weight' has 5 rows", [](MadeModel& made) {
    made.add("model.layers.0.self_attn.g_proj.weight", {5, 64});
  });
}

TEST(Load, experts_must_agree_with_their_router) {
  refused(
      ErrorKind::Parse, "routes to 5 experts",
      [](MadeModel& made) {
        made.find("model.layers.0.mlp.gate.weight").shape = {5, 64};
      },
      4);
  refused(
      ErrorKind::Parse, "routes to 4 experts",
      [](MadeModel& made) {
        for (const char* role : {"gate", "up", "down"}) {
          made.remove("model.layers.0.mlp.experts.2." + std::string(role) + "_proj.weight");
        }
      },
      4);
  refused(
      ErrorKind::Parse, "expert_bias", [](MadeModel& made) { made.add("model.layers.0.mlp.expert_bias", {3}); }, 4);
  refused(
      ErrorKind::Parse, "arch.moe is not", [](MadeModel& made) { made.arch.moe.reset(); }, 4);
}

TEST(Load, what_is_not_executed_is_refused_by_name) {
  refused(ErrorKind::Unsupported, "sinks", [](MadeModel& made) { made.add("model.layers.0.self_attn.sinks", {4}); });
  refused(ErrorKind::Unsupported, "ShortConv",
          [](MadeModel& made) { made.arch.layer_types[1] = cmf::LayerType::ShortConv; });
  refused(ErrorKind::Unsupported, "Kda", [](MadeModel& made) { made.arch.layer_types[1] = cmf::LayerType::Kda; });
  refused(ErrorKind::Unsupported, "model.layers.0.mlp.gate_proj.tube1.weight", [](MadeModel& made) {
    made.add("model.layers.0.mlp.gate_proj.tube1.weight", {8, 64});
  });
  refused(ErrorKind::Unsupported, "lm_head.bias", [](MadeModel& made) { made.add("lm_head.bias", {50}); });
  refused(ErrorKind::Parse, "linear_attn", [](MadeModel& made) {
    made.arch.layer_types[0] = cmf::LayerType::LinearAttention;
    made.arch.linear_conv_kernel_dim = 4;
    made.arch.linear_num_key_heads = made.arch.linear_num_value_heads = 2;
    made.arch.linear_key_head_dim = made.arch.linear_value_head_dim = 16;
  });
}

TEST(Load, a_declared_draft_head_without_tensors_is_a_warning) {
  MadeModel made;
  made.arch.mtp = cmf::Mtp{};
  const auto model = Model::load(made.write());
  EXPECT_EQ(model->mtp(), nullptr);
  ASSERT_EQ(model->warnings().size(), 1u);
  EXPECT_NE(model->warnings()[0].find("mtp"), std::string::npos);
}

TEST(Load, transposed_copies_change_nothing) {
  MadeModel made;
  const auto plain = Model::load(made.write());
  made.add("model.layers.0.mlp.down_proj.t.weight", {96, 64});
  const auto with = Model::load(made.write());
  Decoder a(plain, pool(), {}), b(with, pool(), {});
  const std::vector<uint32_t> ids = {1, 2, 3};
  EXPECT_EQ(logits_of(a, plain->backbone(), ids), logits_of(b, with->backbone(), ids));
}

TEST(Load, one_layer_sees_exactly_its_window) {
  // One layer, window 4: the last row must not notice what lies before its window, and must notice its edge.
  MadeModel made(64, 96, 1);
  made.arch.layer_types = {cmf::LayerType::SlidingAttention};
  made.arch.sliding_window = 4;
  const auto model = Model::load(made.write());
  Decoder decoder(model, pool(), exact());
  for (const uint64_t length : {3u, 4u, 5u, 8u, 130u}) {
    std::vector<uint32_t> ids(length);
    for (uint64_t i = 0; i < length; ++i) ids[i] = static_cast<uint32_t>(i * 7 % 50);
    const auto expected = logits_of(decoder, model->backbone(), ids, 0, 1);
    for (uint64_t changed = 0; changed + 1 < length; ++changed) {
      auto other = ids;
      other[changed] = (other[changed] + 1) % 50;
      const bool seen = changed + 4 >= length;
      EXPECT_EQ(logits_of(decoder, model->backbone(), other, 0, 1) != expected, seen) << length << " " << changed;
    }
  }
}

}  // namespace
}  // namespace cortiq::engine
