#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cmf/file.h"
#include "cmf/verify.h"
#include "convert/convert.h"
#include "convert/dtypes.h"
#include "convert/requant.h"
#include "convert/support.h"
#include "convert/toy_model.h"
#include "support/faulty_file_system.h"

namespace cortiq::convert {
namespace {

namespace fs = std::filesystem;
using codec::Dtype;

Plan toy_plan(const ConvertOptions& options, std::shared_ptr<FakeSource> source = toy_source()) {
  ThreadPool pool(1);
  return make_plan(checkpoint_of(toy_config(), std::move(source)), options, pool);
}

Summary run(const Plan& plan, const std::string& path, size_t threads = 1, FileSystem& files = FileSystem::real()) {
  ThreadPool pool(threads);
  return execute(plan, path, pool, Progress::none(), Cancellation(), files);
}

std::vector<float> decoded(const cmf::FileSet& set, std::string_view name) {
  const cmf::Tensor* tensor = set.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  if (!tensor) return {};
  std::vector<float> out(tensor->shape.elements());
  cmf::decode_rows(set, *tensor, 0, tensor->shape.rows(), out.data());
  return out;
}

TEST(Execute, f32_file_holds_every_value_and_verifies) {
  Scratch scratch;
  const Plan plan = toy_plan({.quant = "f32"});
  const Summary summary = run(plan, scratch.path("x.cmf"));
  EXPECT_EQ(summary.tensors, plan.tensors.size());
  EXPECT_EQ(summary.bytes, fs::file_size(scratch.path("x.cmf")));
  const auto set = cmf::FileSet::open(scratch.path("x.cmf"));
  for (const PlannedTensor& tensor : plan.tensors) {
    const std::vector<float> values = decoded(*set, tensor.name);
    for (uint64_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], toy_value(tensor.name, i)) << tensor.name << " " << i;
  }
  ThreadPool pool(1);
  const cmf::Report report =
      cmf::verify(scratch.path("x.cmf"), {}, pool, FileSystem::real(), Progress::none(), Cancellation());
  EXPECT_TRUE(report.valid);
  EXPECT_EQ(set->header().quant_type, "F32");
  EXPECT_EQ(set->header().chat->eos_token_ids, std::vector<uint32_t>{2});
}

TEST(Execute, bytes_do_not_depend_on_the_number_of_threads) {
  Scratch scratch;
  for (const char* quant :
       {"f32", "bf16", "f16", "q8", "q8_2f", "q4", "q4t", "q4tp", "vbit", "q1", "q1p", "q1s", "q1t"}) {
    const Plan plan = toy_plan({.quant = quant});
    run(plan, scratch.path("1.cmf"), 1);
    run(plan, scratch.path("3.cmf"), 3);
    EXPECT_EQ(read_file(scratch.path("1.cmf")), read_file(scratch.path("3.cmf"))) << quant;
    ThreadPool pool(1);
    const auto report =
        cmf::verify(scratch.path("1.cmf"), {}, pool, FileSystem::real(), Progress::none(), Cancellation());
    EXPECT_TRUE(report.valid) << quant;
  }
}

TEST(Execute, sixteen_bit_sources_are_copied_verbatim) {
  for (const char* dtype : {"BF16", "F16"}) {
    Scratch scratch;
    const bool bf16 = std::string_view(dtype) == "BF16";
    const auto rounded = [&](const std::string& name, uint64_t i) {
      return bf16 ? bf16_to_f32(f32_to_bf16(toy_value(name, i))) : f16_to_f32(f32_to_f16(toy_value(name, i)));
    };
    run(toy_plan({.quant = bf16 ? "bf16" : "f16"}, toy_source(2, dtype, rounded)), scratch.path("x.cmf"));
    const auto set = cmf::FileSet::open(scratch.path("x.cmf"));
    for (const cmf::Tensor& tensor : set->tensors()) {
      EXPECT_EQ(tensor.dtype, bf16 ? Dtype::BF16 : Dtype::F16) << tensor.name;
      const std::vector<float> values = decoded(*set, tensor.name);
      for (uint64_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], rounded(std::string(tensor.name), i));
    }
  }
}

TEST(Execute, norms_are_never_quantised_and_patterns_choose_the_rest) {
  const Plan plan = toy_plan(
      {.quant = "q4tp", .quant_for = {{"*", "q8"}, {"*.down_proj.*", "f16"}, {"lm_head", "q8_2f"}, {"no_such", "q4"}}});
  for (const PlannedTensor& tensor : plan.tensors) {
    const Dtype expected = tensor.name.ends_with("norm.weight")                ? Dtype::F16
                           : tensor.name.find("down_proj") != tensor.name.npos ? Dtype::F16
                           : tensor.name == "lm_head.weight"                   ? Dtype::Q8TwoField
                                                                               : Dtype::Q8Row;
    EXPECT_EQ(tensor.dtype, expected) << tensor.name;
  }
  ASSERT_EQ(plan.warnings.size(), 2u) << "no tokenizer, and a pattern that fits nothing";
  EXPECT_TRUE(std::any_of(plan.warnings.begin(), plan.warnings.end(),
                          [](const std::string& text) { return text.find("no_such") != text.npos; }));
  EXPECT_EQ(refusal_of([] { toy_plan({.quant = "q9"}); }).kind, "Usage");
  EXPECT_EQ(refusal_of([] { toy_plan({.quant_for = {{"*", "q9"}}}); }).kind, "Usage");
}

TEST(Glob, stars_marks_and_brackets) {
  EXPECT_TRUE(glob("*", ""));
  EXPECT_TRUE(glob("a*c*e", "abcde"));
  EXPECT_TRUE(glob("*.layers.[0-3].*", "model.layers.2.mlp"));
  EXPECT_FALSE(glob("*.layers.[!0-3].*", "model.layers.2.mlp"));
  EXPECT_TRUE(glob("model.?orm", "model.norm"));
  EXPECT_FALSE(glob("norm", "model.norm"));
  EXPECT_TRUE(glob("[", "["));
  EXPECT_FALSE(glob(std::string(40, '*') + "b", std::string(4000, 'a'))) << "linear, not exponential";
}

FakeSource::Value with_value(const std::string& tensor, float value) {
  return [=](const std::string& name, uint64_t i) { return name == tensor && i == 5 ? value : toy_value(name, i); };
}

TEST(Execute, a_value_beyond_f16_is_an_error_in_vectors_and_where_f16_was_demanded) {
  Scratch scratch;
  const std::string matrix = "model.layers.0.mlp.up_proj.weight", norm = "model.norm.weight";
  const Refusal vector =
      refusal_of([&] { run(toy_plan({}, toy_source(2, "F32", with_value(norm, 70000))), scratch.path("x.cmf")); });
  EXPECT_EQ(vector.kind, "Bounds");
  EXPECT_NE(vector.text.find(norm), std::string::npos) << vector.text;
  EXPECT_EQ(refusal_of([&] {
              run(toy_plan({}, toy_source(2, "F32", with_value(norm, 65519.996f))), scratch.path("ok.cmf"));
            }).kind,
            "none");

  const ConvertOptions demanded{.quant_for = {{matrix, "f16"}}};
  EXPECT_EQ(refusal_of([&] {
              run(toy_plan(demanded, toy_source(2, "F32", with_value(matrix, 70000))), scratch.path("x.cmf"));
            }).kind,
            "Bounds");
  EXPECT_FALSE(fs::exists(scratch.path("x.cmf")));

  const Summary wide =
      run(toy_plan({.quant = "f16"}, toy_source(2, "F32", with_value(matrix, 70000))), scratch.path("wide.cmf"));
  EXPECT_NE(wide.warnings.back().find(matrix), std::string::npos);
  const auto set = cmf::FileSet::open(scratch.path("wide.cmf"));
  EXPECT_EQ(set->find(matrix)->dtype, Dtype::F32);
  EXPECT_EQ(decoded(*set, matrix)[5], 70000);
  EXPECT_EQ(set->find("lm_head.weight")->dtype, Dtype::F16);
}

TEST(Execute, nan_and_infinity_are_refused_with_the_tensor_and_leave_nothing) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* quant : {"f32", "bf16", "f16", "q8", "q4tp", "vbit"}) {
      Scratch scratch;
      const std::string name = "model.layers.1.self_attn.o_proj.weight";
      const Refusal refusal = refusal_of(
          [&] { run(toy_plan({.quant = quant}, toy_source(2, "F32", with_value(name, bad))), scratch.path("x.cmf")); });
      EXPECT_EQ(refusal.kind, "Parse") << quant;
      EXPECT_NE(refusal.text.find(name), std::string::npos) << refusal.text;
      EXPECT_TRUE(fs::is_empty(scratch.path(""))) << quant;
    }
  }
}

TEST(Execute, a_disk_that_fails_at_any_call_leaves_nothing_under_the_name) {
  MemoryFileSystem empty;
  const Plan plan = toy_plan({.quant = "q4t"});
  FaultyFileSystem counting(empty);
  run(plan, "out.cmf", 1, counting);
  ASSERT_GT(counting.calls(), 20u);
  for (const auto fault : {FaultyFileSystem::Fault::NoSpace, FaultyFileSystem::Fault::ShortWrite}) {
    for (size_t n = 1; n <= counting.calls(); ++n) {
      FaultyFileSystem files(empty);
      files.fail_at(n, fault);
      const Refusal refusal = refusal_of([&] { run(plan, "out.cmf", 1, files); });
      if (refusal.kind == "none") continue;  // a clean-up call failed after the file was complete
      EXPECT_EQ(refusal.kind, "Io");
      EXPECT_NE(refusal.text.find("bytes)"), std::string::npos) << "says how much room is needed: " << refusal.text;
      for (const std::string& path : files.paths()) {
        if (path != "out.cmf") continue;
        EXPECT_NO_THROW(cmf::File::open("out.cmf", files)) << "call " << n << ": a half file has the name";
      }
    }
  }
}

TEST(Execute, cancellation_between_tensors_leaves_nothing) {
  Scratch scratch;
  const Plan plan = toy_plan({});
  ThreadPool pool(1);
  Cancellation cancel;
  int written = 0;
  const auto stop = [&](const PlannedTensor&, Dtype, uint64_t) {
    if (++written == 7) cancel.request();
  };
  EXPECT_EQ(refusal_of([&] {
              execute(plan, scratch.path("x.cmf"), pool, Progress::none(), cancel, FileSystem::real(), stop);
            }).kind,
            "Cancelled");
  EXPECT_EQ(written, 7);
  EXPECT_TRUE(fs::is_empty(scratch.path("")));
}

TEST(Execute, an_existing_file_is_replaced_only_by_a_complete_one) {
  Scratch scratch;
  scratch.write("x.cmf", "old");
  const std::string norm = "model.norm.weight";
  refusal_of([&] { run(toy_plan({}, toy_source(2, "F32", with_value(norm, 70000))), scratch.path("x.cmf")); });
  EXPECT_EQ(read_file(scratch.path("x.cmf")), "old");
  run(toy_plan({}), scratch.path("x.cmf"));
  EXPECT_NO_THROW(cmf::File::open(scratch.path("x.cmf")));
}

TEST(Execute, unwritable_targets_fail_before_the_work) {
  const Plan plan = toy_plan({});
  EXPECT_EQ(refusal_of([&] { run(plan, "/nonexistent/x.cmf"); }).kind, "Io");
}

TEST(Shards, a_set_holds_the_same_tensors_and_opens_by_any_name) {
  Scratch scratch;
  ConvertOptions options;
  run(toy_plan(options), scratch.path("one.cmf"));
  options.shard_max_gb = 60e-6;  // 60,000 bytes of f32
  const Summary summary = run(toy_plan(options), scratch.path("m.cmf"));
  ASSERT_GT(summary.outputs.size(), 2u);
  EXPECT_EQ(summary.output, scratch.path(fmt::format("m-00001-of-{:05}.cmf", summary.outputs.size())));
  const auto whole = cmf::FileSet::open(scratch.path("one.cmf"));
  for (const std::string& path : summary.outputs) {
    const auto set = cmf::FileSet::open(path);
    ASSERT_EQ(set->tensors().size(), whole->tensors().size());
    for (const cmf::Tensor& tensor : whole->tensors()) {
      ASSERT_NE(set->find(tensor.name), nullptr);
      EXPECT_EQ(set->find(tensor.name)->hash, tensor.hash) << tensor.name;
    }
  }
  EXPECT_TRUE(cmf::File::open(summary.outputs[0])->header().chat.has_value());
  EXPECT_FALSE(cmf::File::open(summary.outputs[1])->header().chat.has_value());
}

TEST(Requant, re_encoding_equals_converting_and_keeps_what_it_does_not_know) {
  Scratch scratch;
  run(toy_plan({.quant = "f32"}), scratch.path("f32.cmf"));
  run(toy_plan({.quant = "q4t"}), scratch.path("q4t.cmf"));
  ThreadPool pool(2);
  const auto requanted = [&](const std::string& from, ConvertOptions options, const std::string& to) {
    return requant({scratch.path(from), std::move(options)}, scratch.path(to), pool, Progress::none(), Cancellation());
  };
  requanted("f32.cmf", {.quant = "q4t"}, "again.cmf");
  const auto direct = cmf::FileSet::open(scratch.path("q4t.cmf")),
             again = cmf::FileSet::open(scratch.path("again.cmf"));
  EXPECT_EQ(again->header().quant_type, "Q4_BLOCK");
  for (const cmf::Tensor& tensor : direct->tensors()) {
    if (tensor.shape.rank != 2) continue;
    EXPECT_EQ(again->find(tensor.name)->hash, tensor.hash) << tensor.name;
  }

  // A pattern alone: everything else is copied byte for byte, also over the input itself.
  requanted("q4t.cmf", {.quant = "", .quant_for = {{"lm_head", "q8"}}}, "q4t.cmf");
  const auto mixed = cmf::FileSet::open(scratch.path("q4t.cmf"));
  for (const cmf::Tensor& tensor : direct->tensors()) {
    const bool changed = tensor.name == "lm_head.weight";
    EXPECT_EQ(mixed->find(tensor.name)->hash == tensor.hash, !changed) << tensor.name;
  }
  EXPECT_EQ(mixed->find("lm_head.weight")->dtype, Dtype::Q8Row);
  EXPECT_EQ(mixed->header().quant_type, "Q4_BLOCK");

  const Summary set = requanted("q4t.cmf", {.quant = "", .shard_max_gb = 60e-6}, "set.cmf");
  EXPECT_GT(set.outputs.size(), 2u);
  requanted(fs::path(set.outputs[1]).filename(), {.quant = ""}, "joined.cmf");
  EXPECT_EQ(cmf::FileSet::open(scratch.path("joined.cmf"))->tensors().size(), direct->tensors().size());
}

TEST(HeadDiffers, the_head_beside_a_tied_config_counts_if_it_differs) {
  Scratch scratch;
  ThreadPool pool(1);
  const Plan differs = make_plan(data("hf/head_differs"), {.quant = "f32"}, pool);
  EXPECT_FALSE(differs.arch.tie_word_embeddings);
  EXPECT_TRUE(std::any_of(differs.warnings.begin(), differs.warnings.end(), [](const std::string& text) {
    return text.find("lm_head.weight") != text.npos && text.find("model.embed_tokens.weight") != text.npos;
  }));
  const Plan identical = make_plan(data("hf/head_identical"), {.quant = "f32"}, pool);
  EXPECT_TRUE(identical.arch.tie_word_embeddings);
  ASSERT_EQ(identical.drops.size(), 1u);
  EXPECT_EQ(identical.drops[0].name, "lm_head.weight");
  run(differs, scratch.path("d.cmf"));
  run(identical, scratch.path("i.cmf"));
  EXPECT_NE(cmf::File::open(scratch.path("d.cmf"))->find("lm_head.weight"), nullptr);
  EXPECT_EQ(cmf::File::open(scratch.path("i.cmf"))->find("lm_head.weight"), nullptr);
  // The union of config (2) and generation_config (2, 3), and the template of tokenizer_config.
  const auto file = cmf::File::open(scratch.path("d.cmf"));
  EXPECT_EQ(file->header().chat->eos_token_ids, (std::vector<uint32_t>{2, 3}));
  EXPECT_TRUE(file->header().chat->chat_template.has_value());
  EXPECT_EQ(file->header().chat->bos_token_id, 1u);
  EXPECT_EQ(file->tokenizer_json(), read_file(data("hf/head_differs/tokenizer.json")));
}

TEST(HeadMissing, untied_without_head_is_an_error_and_tied_with_only_a_head_means_it) {
  auto source = toy_source();
  source->remove("lm_head.weight");
  const Refusal refusal = refusal_of([&] { toy_plan({}, source); });
  EXPECT_EQ(refusal.kind, "Parse");
  EXPECT_NE(refusal.text.find("lm_head.weight"), std::string::npos);

  auto headed = toy_source();
  headed->remove("model.embed_tokens.weight");
  Json config = toy_config();
  EXPECT_EQ(refusal_of([&] { toy_plan({}, headed); }).kind, "Parse");
  config["tie_word_embeddings"] = true;
  ThreadPool pool(1);
  const Plan plan = make_plan(checkpoint_of(config, headed), {}, pool);
  EXPECT_TRUE(plan.arch.tie_word_embeddings);
  EXPECT_EQ(plan.tensors.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(plan.tensors.front().source, "lm_head.weight");
  EXPECT_FALSE(plan.notes.empty());
}

TEST(ChatBundle, side_file_wins_and_lists_give_their_default) {
  ThreadPool pool(1);
  const auto bundle = [&](const std::string& side, const Json& value) {
    auto checkpoint = checkpoint_of(toy_config(), toy_source());
    checkpoint->chat_template = side;
    checkpoint->tokenizer_config = Json{{"chat_template", value}};
    return make_plan(checkpoint, {}, pool);
  };
  const auto text = [](const Plan& plan) {
    return plan.contents.header["tokenizer_config"].value("chat_template", "none");
  };
  const Json list = {{{"name", "tool_use"}, {"template", "T"}}, {{"name", "default"}, {"template", "D"}}};
  EXPECT_EQ(text(bundle("S", "C")), "S");
  EXPECT_EQ(text(bundle(" \n", "C")), "C");
  EXPECT_EQ(text(bundle("", list)), "D");
  EXPECT_EQ(text(bundle("", "")), "none");
  const Plan plan = bundle("", list);
  EXPECT_TRUE(std::any_of(plan.notes.begin(), plan.notes.end(),
                          [](const std::string& note) { return note.find("tool_use") != note.npos; }));
}

}  // namespace
}  // namespace cortiq::convert
