// The whole program's figures, each beside this machine's limits measured in the same run: opening a file of 20,000
// tensors, hashing, verifying, converting, prefill and decoding of a synthetic model of about 100 M weights.
//
//   bench_program [SCRATCH_DIR]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/cpu.h"
#include "base/hash64.h"
#include "cmf/verify.h"
#include "cmf/writer.h"
#include "convert/convert.h"
#include "convert/safetensors_writer.h"
#include "engine/bench.h"
#include "engine/binding.h"
#include "limits.h"
#include "skills/registry.h"

namespace {

using namespace cortiq;
namespace fs = std::filesystem;
using bench::Limits;
using bench::now;

template <class Action>
double median_seconds(int repeats, Action&& action) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    action();
    seconds.push_back(now() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return seconds[static_cast<size_t>(repeats / 2)];
}

void line(const char* what, const std::string& figure, const std::string& beside) {
  fmt::print("{:<42} {:>22}   {}\n", what, figure, beside);
}

void open_many(const fs::path& scratch) {
  constexpr uint32_t kTensors = 20000;
  cmf::Arch arch;
  arch.arch_name = "bench";
  arch.hidden_size = arch.intermediate_size = arch.head_dim = 32;
  arch.num_layers = arch.num_attention_heads = arch.num_kv_heads = 1;
  arch.vocab_size = 32;
  arch.max_position_embeddings = 64;
  arch.layer_types = {cmf::LayerType::FullAttention};
  cmf::Contents contents;
  contents.header = {{"format", "cmf"}, {"version", 2}, {"arch", cmf::write_arch(arch)}, {"quant_type", "F16"}};
  std::vector<cmf::Declaration> declarations;
  for (uint32_t i = 0; i < kTensors; ++i) {
    declarations.push_back(
        {fmt::format("model.layers.{}.mlp.experts.{}.gate_proj.weight", i / 500, i % 500), codec::Dtype::F16, {32}});
  }
  const std::string path = (scratch / "many.cmf").string();
  cmf::Writer writer(FileSystem::real(), path, std::move(contents), std::move(declarations));
  const std::vector<uint8_t> payload(64);
  for (uint32_t i = 0; i < kTensors; ++i) writer.append(Bytes(payload.data(), payload.size()));
  writer.finish();
  const double seconds = median_seconds(9, [&] { cmf::File::open(path); });
  line("open, 20,000 tensors", fmt::format("{:.2f} ms", seconds * 1e3), "target 15 ms");
}

// A qwen3-shaped checkpoint of random bf16 weights: 8 layers of 1024, 32,768 tokens.
std::string make_checkpoint(const fs::path& scratch) {
  const fs::path folder = scratch / "hf";
  fs::create_directories(folder);
  constexpr uint64_t kHidden = 1024, kInner = 3072, kLayers = 8, kVocab = 32768, kHeads = 16, kKv = 8, kHead = 128;
  const Json config = {{"model_type", "qwen3"},
                       {"architectures", {"Qwen3ForCausalLM"}},
                       {"hidden_size", kHidden},
                       {"intermediate_size", kInner},
                       {"num_hidden_layers", kLayers},
                       {"num_attention_heads", kHeads},
                       {"num_key_value_heads", kKv},
                       {"head_dim", kHead},
                       {"vocab_size", kVocab},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 1e6},
                       {"tie_word_embeddings", true},
                       {"max_position_embeddings", 8192},
                       {"hidden_act", "silu"},
                       {"torch_dtype", "bfloat16"}};
  const std::string text = config.dump();
  write_file(FileSystem::real(), (folder / "config.json").string(), Bytes(text));
  std::vector<convert::SafetensorsWriter::Declaration> tensors = {
      {"model.embed_tokens.weight", {kVocab, kHidden}, "BF16"}, {"model.norm.weight", {kHidden}, "BF16"}};
  for (uint64_t l = 0; l < kLayers; ++l) {
    const std::string p = fmt::format("model.layers.{}.", l);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back({p + norm + ".weight", {kHidden}, "BF16"});
    for (const char* norm : {"q_norm", "k_norm"})
      tensors.push_back({p + "self_attn." + norm + ".weight", {kHead}, "BF16"});
    tensors.push_back({p + "self_attn.q_proj.weight", {kHeads * kHead, kHidden}, "BF16"});
    tensors.push_back({p + "self_attn.k_proj.weight", {kKv * kHead, kHidden}, "BF16"});
    tensors.push_back({p + "self_attn.v_proj.weight", {kKv * kHead, kHidden}, "BF16"});
    tensors.push_back({p + "self_attn.o_proj.weight", {kHidden, kHeads * kHead}, "BF16"});
    tensors.push_back({p + "mlp.gate_proj.weight", {kInner, kHidden}, "BF16"});
    tensors.push_back({p + "mlp.up_proj.weight", {kInner, kHidden}, "BF16"});
    tensors.push_back({p + "mlp.down_proj.weight", {kHidden, kInner}, "BF16"});
  }
  convert::SafetensorsWriter writer(FileSystem::real(), (folder / "model.safetensors").string(), tensors);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<uint16_t> values(uint64_t{1} << 20);
  for (auto& value : values) value = f32_to_bf16(normal(random));
  for (const auto& tensor : tensors) {
    uint64_t left = 1;
    for (const uint64_t size : tensor.shape) left *= size;
    while (left > 0) {
      const uint64_t count = std::min<uint64_t>(left, values.size());
      writer.append_bytes({reinterpret_cast<const uint8_t*>(values.data()), count * 2});
      left -= count;
    }
  }
  writer.finish();
  return folder.string();
}

// What it costs that the next token comes from another skill: looking the binding up (at first: making it), and a token
// of one sequence followed by a token of another, both under one skill or each under its own.
void switch_skills(const std::string& file, const std::string& checkpoint, ThreadPool& pool) {
  const std::vector<std::string> ids = {"first", "second"};
  for (const std::string& id : ids) {
    const fs::path donor = fs::path(checkpoint).parent_path() / (id + ".safetensors");
    std::vector<convert::SafetensorsWriter::Declaration> tensors;
    for (int layer = 5; layer < 8; ++layer)
      tensors.push_back({fmt::format("model.layers.{}.mlp.gate_proj.weight", layer), {3072, 1024}, "BF16"});
    convert::SafetensorsWriter writer(FileSystem::real(), donor.string(), tensors);
    const std::vector<uint16_t> values(size_t{3072} * 1024, f32_to_bf16(id == "first" ? 0.01f : -0.01f));
    for (size_t i = 0; i < tensors.size(); ++i)
      writer.append_bytes({reinterpret_cast<const uint8_t*>(values.data()), values.size() * 2});
    writer.finish();
    const auto set = skills::from_safetensors(*cmf::FileSet::open(file), donor.string(), std::nullopt, pool,
                                              Progress::none(), Cancellation::never());
    skills::add_skill({file, ""}, id, id, &set, std::nullopt, Json::object(), Progress::none(), Cancellation::never());
  }
  const auto model = engine::Model::load(file);
  const auto bind = [&](const std::string& id) {
    return model->bind({.skill = id, .blend = {}, .task = {}, .experts = {}});
  };
  const double first = median_seconds(1, [&] { bind(ids[0]); });
  const double again = median_seconds(1001, [&] { bind(ids[0]); });
  engine::Decoder decoder(model, pool);
  const auto pair = [&](const std::string& left, const std::string& right) {
    const auto a = decoder.sequence(bind(left)), b = decoder.sequence(bind(right));
    const auto token = [&](engine::Sequence& sequence) {
      const uint32_t id = 7;
      engine::Piece piece{&sequence, {&id, 1}, engine::Piece::Logits::Last};
      decoder.forward({&piece, 1});
    };
    token(*a), token(*b);
    return median_seconds(41, [&] { token(*a), token(*b); });
  };
  const double same = pair(ids[0], ids[0]), other = pair(ids[0], ids[1]);
  line("skill: first binding", fmt::format("{:.3f} ms", first * 1e3), "target 1 ms");
  line("skill: switching", fmt::format("{:.4f} ms", again * 1e3), "target 1 ms");
  line("skill: two tokens, one skill / two", fmt::format("{:.2f} / {:.2f} ms", same * 1e3, other * 1e3), "");
}

}  // namespace

int main(int count, char** values) {
  const fs::path scratch =
      count > 1 ? fs::path(values[1]) : fs::temp_directory_path() / fmt::format("cortiq-bench-{}", ::getpid());
  fs::create_directories(scratch);
  ThreadPool pool(usable_threads());
  Limits limits(pool);
  const double one = limits.bandwidth(1), all = limits.bandwidth(pool.threads()), peak = limits.int8_peak();
  fmt::print("{} threads, {}; read bandwidth {:.1f} GB/s ({:.1f} with one thread), int8 peak {:.0f} GMAC/s\n\n",
             pool.threads(), name(active_isa()), all / 1e9, one / 1e9, peak / 1e9);
  open_many(scratch);
  {
    std::vector<uint8_t> bytes(size_t{512} << 20, 3);
    const double seconds = median_seconds(5, [&] { hash64(Bytes(bytes.data(), bytes.size())); });
    const double rate = static_cast<double>(bytes.size()) / seconds;
    line("hash64, one thread", fmt::format("{:.1f} GB/s", rate / 1e9),
         fmt::format("{:.0f}% of one thread's read bandwidth", 100 * rate / one));
  }
  const std::string checkpoint = make_checkpoint(scratch);
  for (const char* quant : {"q8", "q4t", "q4tp"}) {
    convert::ConvertOptions options;
    options.quant = quant;
    const std::string file = (scratch / fmt::format("{}.cmf", quant)).string();
    convert::Summary summary;
    const double seconds = median_seconds(3, [&] {
      const convert::Plan plan = convert::make_plan(checkpoint, options, pool);
      summary = convert::execute(plan, file, pool, Progress::none(), Cancellation::never());
    });
    line(fmt::format("convert bf16 to {}", quant).c_str(),
         fmt::format("{:.0f} MB/s of source", static_cast<double>(summary.source_bytes) / seconds / 1e6),
         fmt::format("{:.1f}% of read bandwidth", 100 * static_cast<double>(summary.source_bytes) / seconds / all));
    const double verify = median_seconds(
        5, [&] { cmf::verify(file, {}, pool, FileSystem::real(), Progress::none(), Cancellation::never()); });
    line(fmt::format("verify {}", quant).c_str(),
         fmt::format("{:.1f} GB/s", static_cast<double>(summary.bytes) / verify / 1e9),
         fmt::format("{:.0f}% of read bandwidth", 100 * static_cast<double>(summary.bytes) / verify / all));
    const auto model = engine::Model::load(file);
    engine::Decoder decoder(model, pool);
    const auto binding = model->backbone();
    engine::BenchOptions wish;
    wish.prompt = 256;
    wish.tokens = 48;
    wish.repeats = 3;
    const double before = limits.bandwidth(pool.threads());
    const auto result = engine::bench(decoder, binding, wish, Cancellation::never());
    const double bandwidth = (before + limits.bandwidth(pool.threads())) / 2;
    // Multiply-adds of a prompt's token: every matrix but the head, which only the last token needs.
    const double macs = 8.0 * (1024.0 * 2048 + 2 * 1024.0 * 1024 + 2048.0 * 1024 + 3 * 1024.0 * 3072);
    line(fmt::format("prefill {}, 256 tokens", quant).c_str(),
         fmt::format("{:.0f} tokens/s", result.prefill_tokens_per_second),
         fmt::format("{:.0f}% of int8 peak", 100 * result.prefill_tokens_per_second * macs / peak));
    line(fmt::format("decode {}", quant).c_str(), fmt::format("{:.1f} tokens/s", result.decode_tokens_per_second),
         fmt::format("{:.0f}% of read bandwidth", 100 * result.decode_tokens_per_second *
                                                      static_cast<double>(result.decode_bytes_per_token) / bandwidth));
  }
  switch_skills((scratch / "q8.cmf").string(), checkpoint, pool);
  if (count <= 1) fs::remove_all(scratch);
  return 0;
}
