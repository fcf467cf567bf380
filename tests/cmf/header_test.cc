// Every rule of the header, one broken variant each.
#include "cmf/header.h"

#include <gtest/gtest.h>

#include "cmf/base64.h"
#include "cmf/lossless_json.h"
#include "cmf/sample_file.h"

namespace cortiq::cmf {
namespace {

// The header with one change, parsed; "ok" or the error.
std::string parsed(const std::function<void(Json&)>& change) {
  Json header = sample_contents().header;
  change(header);
  try {
    parse_header(write_json(header), "m.cmf");
  } catch (const Error& error) {
    return std::string(name(error.kind())) + ": " + error.what();
  }
  return "ok";
}

struct Case {
  const char* path;   ///< JSON pointer of what is set
  const char* value;  ///< JSON text; nullptr: taken out
  const char* names;  ///< what the error must name; nullptr: accepted
};

class HeaderRule : public testing::TestWithParam<Case> {};

TEST_P(HeaderRule, holds) {
  const auto [path, value, names] = GetParam();
  const std::string got = parsed([&, path = path, value = value](Json& header) {
    const Json::json_pointer pointer(path);
    if (value) {
      header[pointer] = parse_lossless_json(value, "test");
    } else {
      header[pointer.parent_pointer()].erase(pointer.back());
    }
  });
  if (!names) {
    EXPECT_EQ(got, "ok");
    return;
  }
  EXPECT_TRUE(got.starts_with("Parse: m.cmf: ")) << got;
  EXPECT_NE(got.find(names), std::string::npos) << got;
}

INSTANTIATE_TEST_SUITE_P(
    TopLevel, HeaderRule,
    testing::Values(
        Case{"/format", R"("gguf")", "format"}, Case{"/format", "null", "format"}, Case{"/format", nullptr, nullptr},
        Case{"/version", "1", "version"}, Case{"/version", nullptr, "version"}, Case{"/version", "2.0", "version"},
        Case{"/arch", "[]", "arch"}, Case{"/arch", nullptr, "arch"}, Case{"/quant_type", R"("Q9")", "quant_type"},
        Case{"/quant_type", nullptr, "quant_type"}, Case{"/provenance", "17", nullptr},
        Case{"/tokenizer_config", "null", nullptr}, Case{"/tokenizer_config", "{}", nullptr},
        Case{"/tokenizer_config", R"({"eos_token_ids":[-1]})", "eos_token_ids"},
        Case{"/tokenizer_config", R"({"eos_token_ids":[4294967296]})", "eos_token_ids"},
        Case{"/tokenizer_config", R"({"eos_token_ids":null})", "eos_token_ids"},
        Case{"/tokenizer_config", R"({"bos_token_id":1.5})", "bos_token_id"},
        Case{"/tokenizer_config", R"({"chat_template":["a"]})", "chat_template"},
        Case{"/tokenizer_config", R"({"chat_template":"\ud800"})", "chat_template"},
        Case{"/section_hashes", R"({"masks":"xyz"})", "section_hashes.masks"},
        Case{"/section_hashes", R"({"masks":12})", "section_hashes.masks"},
        Case{"/section_hashes", R"({"masks":null})", nullptr}, Case{"/shard", R"({"no":1})", "count"},
        Case{"/shard", R"({"no":3,"count":2})", "no"}, Case{"/shard", R"({"no":0,"count":2})", "no"},
        Case{"/shard", "null", nullptr}, Case{"/skills", "null", "skills"}, Case{"/skills", "{}", "skills"}));

INSTANTIATE_TEST_SUITE_P(
    Arch, HeaderRule,
    testing::Values(
        Case{"/arch/hidden_size", "64.0", "arch.hidden_size"}, Case{"/arch/hidden_size", "6.4e1", "hidden_size"},
        Case{"/arch/hidden_size", "\"64\"", "hidden_size"}, Case{"/arch/hidden_size", "4294967296", "hidden_size"},
        Case{"/arch/hidden_size", "123456789012345678901234567890", "hidden_size"},
        Case{"/arch/num_layers", "3", "layer_types"}, Case{"/arch/layer_types/0", "\"Quantum\"", "layer_types"},
        Case{"/arch/layer_types/0", "7", "layer_types"}, Case{"/arch/num_kv_heads", "3", "num_kv_heads"},
        Case{"/arch/num_kv_heads", "0", "num_kv_heads"}, Case{"/arch/rms_norm_eps", "-1e-6", "rms_norm_eps"},
        Case{"/arch/rms_norm_eps", "0", nullptr}, Case{"/arch/rms_norm_eps", "1e400", "rms_norm_eps"},
        Case{"/arch/rms_norm_eps", "0.00000100000000000000000000001", nullptr},
        Case{"/arch/rope_theta", "0", "rope_theta"}, Case{"/arch/rope_theta", "null", "rope_theta"},
        Case{"/arch/norm_style", "\"Qwen\"", "norm_style"}, Case{"/arch/norm_style", "null", "norm_style"},
        Case{"/arch/norm_style", nullptr, nullptr}, Case{"/arch/hidden_act", "\"relu\"", "hidden_act"},
        Case{"/arch/hidden_act", "\"situ\"", nullptr}, Case{"/arch/tie_word_embeddings", "1", "tie_word"},
        Case{"/arch/attention_heads_per_layer", "[4]", "attention_heads_per_layer"},
        Case{"/arch/attention_heads_per_layer", "[4,5]", "attention_heads_per_layer"},
        Case{"/arch/attention_heads_per_layer", "[4,0]", "attention_heads_per_layer"},
        Case{"/arch/attention_heads_per_layer", "[4,6]", nullptr}, Case{"/arch/num_loops", "0", "num_loops"},
        Case{"/arch/moe", R"({"num_experts":4})", "arch.moe.top_k"}, Case{"/arch/moe", "null", nullptr},
        Case{"/arch/yarn", R"({"factor":4})", "original_max_position_embeddings"},
        Case{"/arch/mtp", R"({"num_layers":1,"hidden":"mid"})", "hidden"},
        Case{"/arch/mtp", R"({"num_layers":1})", nullptr},
        Case{"/arch/rope_freq_factors", "[1,0]", "rope_freq_factors"},
        Case{"/arch/no_rope_layers", "[1]", "no_rope_layers"}, Case{"/arch/no_rope_layers", "[1,2]", "no_rope_layers"},
        Case{"/arch/sliding_window", "null", nullptr}, Case{"/arch/unheard_of", R"({"a":[1e999]})", nullptr}));

INSTANTIATE_TEST_SUITE_P(
    Skills, HeaderRule,
    testing::Values(Case{"/skills/0/id", "\"\"", "skills[0].id"}, Case{"/skills/0/id", nullptr, "id"},
                    Case{"/skills/1", R"({"id":"demo"})", "skills[1].id"}, Case{"/skills/0/layers", "[-1]", "layers"},
                    Case{"/skills/0/base_dir_hash", "\"12\"", "base_dir_hash"}, Case{"/skills/0/name", "3", "name"},
                    Case{"/skills/0/selection", R"({"metric":"mse"})", "selection.phi_layer"},
                    Case{"/skills/0/selection", R"({"metric":"mse","phi_layer":0,"mean":"%%","basis":""})", nullptr},
                    Case{"/skills/0/selection", "null", nullptr}));

// A number below the smallest double is zero; one beyond the largest is none.
INSTANTIATE_TEST_SUITE_P(Magnitudes, HeaderRule,
                         testing::Values(Case{"/arch/rms_norm_eps", "1e-4006", nullptr},
                                         Case{"/arch/rms_norm_eps", "0.00001e-99999999999999999999", nullptr},
                                         Case{"/arch/rms_norm_eps", "1e400", "arch.rms_norm_eps"},
                                         Case{"/arch/rope_theta", "1e-400", "arch.rope_theta"},
                                         Case{"/arch/rope_theta", "1e99999999999999999999", "arch.rope_theta"}));

// What is not executed or not used has types all the same (FORMAT_FACTS §4).
INSTANTIATE_TEST_SUITE_P(
    NotUsed, HeaderRule,
    testing::Values(Case{"/arch/mla", "5", "arch.mla"}, Case{"/arch/mla", "{}", "arch.mla.kv_lora_rank"},
                    Case{"/arch/mla", "null", nullptr}, Case{"/arch/g3n", "[]", "arch.g3n"},
                    Case{"/arch/g3n", R"({"altup_num_inputs":1})", "arch.g3n.laurel_rank"},
                    Case{"/arch/global_head_dim", "8.0", "arch.global_head_dim"},
                    Case{"/arch/head_clusters", "4294967296", "arch.head_clusters"},
                    Case{"/arch/num_global_kv_heads", "null", nullptr},
                    Case{"/arch/kda_gate_lower_bound", "true", "arch.kda_gate_lower_bound"},
                    Case{"/arch/activation_situ_beta", "\"x\"", "arch.activation_situ_beta"},
                    Case{"/calibration", "[]", "calibration"}, Case{"/calibration", "{}", "calibration.temperature"},
                    Case{"/calibration", R"({"temperature":2})", nullptr}, Case{"/routing", "7", "routing"},
                    Case{"/routing", R"({"temperature":1,"novelty_theta":1,"target_fpr":1})", "routing.samples"},
                    Case{"/routing", "null", nullptr}));

TEST(Header, duplicate_keys_are_refused_at_every_level) {
  for (const char* text : {R"({"format":"cmf","format":"cmf"})", R"({"x":{"a":1,"a":2}})"}) {
    EXPECT_THROW(parse_header(text, "m"), Error);
  }
}

TEST(Header, keys_this_engine_does_not_execute_are_named) {
  Json header = sample_header();
  header["arch"]["mla"] = {{"kv_lora_rank", 4}, {"qk_rope_head_dim", 4}, {"qk_nope_head_dim", 4}, {"v_head_dim", 4}};
  EXPECT_EQ(parse_arch(header["arch"], "").unsupported, "arch.mla");
  header = sample_header();
  header["arch"]["attn_v_norm"] = true;
  EXPECT_EQ(parse_arch(header["arch"], "").unsupported, "arch.attn_v_norm");
  header = sample_header();
  header["arch"]["hidden_act"] = "situ";
  EXPECT_EQ(parse_arch(header["arch"], "").unsupported, "arch.hidden_act situ");
  EXPECT_EQ(resolved_arch(parse_arch(header["arch"], ""))["hidden_act"], "situ");
  EXPECT_EQ(parse_arch(sample_header()["arch"], "").unsupported, "");
}

TEST(Header, arch_written_and_read_is_the_same_and_resolved_shows_every_key) {
  Json header = sample_header();
  Json& arch = header["arch"];
  arch["moe"] = {{"num_experts", 8}, {"top_k", 2}, {"moe_intermediate_size", 16}, {"router_sigmoid", true}};
  arch["yarn"] = {{"factor", 4.0}, {"original_max_position_embeddings", 32}};
  arch["mtp"] = {{"num_layers", 1}, {"hidden", "pre"}};
  arch["rope_freq_factors"] = {1.0, 2.5};
  arch["no_rope_layers"] = {1, 0};
  arch["hidden_act"] = "gelu_tanh";
  arch["num_loops"] = 2;
  const Arch once = parse_arch(arch, "");
  const Json written = write_arch(once);
  EXPECT_EQ(write_arch(parse_arch(written, "")), written);
  EXPECT_EQ(written["layer_types"][1], "SlidingAttention");
  EXPECT_EQ(written["yarn"]["beta_fast"], 32.0);
  const Json all = resolved_arch(once);
  for (const char* key : {"linear_core", "final_logit_softcapping", "attention_heads_per_layer", "loop_final_norm"}) {
    EXPECT_TRUE(all.contains(key)) << key;
  }
}

TEST(Header, selection_without_rank_takes_it_from_the_basis_and_bad_payloads_make_it_unusable) {
  const auto selection = [](Json change) {
    Json header = sample_contents().header;
    Json one{{"metric", "mse"},
             {"phi_layer", 1},
             {"mean", encode_halves(std::vector<float>(64, 0.5F))},
             {"basis", encode_halves(std::vector<float>(128, 0.25F))}};
    one.update(change);
    header["skills"][0]["selection"] = one;
    return *parse_header(write_json(header), "m").skills[0].selection;
  };
  EXPECT_EQ(selection(Json::object()).rank, 2u);
  EXPECT_EQ(selection(Json::object()).unusable, "");
  EXPECT_EQ(selection(Json::object()).basis[5], 0.25F);
  EXPECT_NE(selection({{"rank", 3}}).unusable, "");
  EXPECT_NE(selection({{"phi_layer", 2}}).unusable, "");
  EXPECT_NE(selection({{"metric", "cosine"}}).unusable, "");
  EXPECT_EQ(selection({{"metric", "mse_unit"}}).unusable, "");
  EXPECT_NE(selection({{"mean", "AAA"}}).unusable, "");
  EXPECT_NE(selection({{"prompt", "other"}}).unusable, "");
  EXPECT_EQ(selection({{"prompt", "chat"}}).prompt, "chat");
}

TEST(LosslessJson, numbers_and_strings_that_nothing_holds_survive) {
  for (const char* text :
       {R"({"a":1e400})", R"([123456789012345678901234567890,-99999999999999999999])", R"({"s":"\ud83d x \udc00"})",
        R"([0.1000000000000000055511151231257827,1e-400,-0])", R"([1.5,-3,18446744073709551615,true,null,"é\n",{}])"}) {
    const Json once = parse_lossless_json(text, "t");
    EXPECT_EQ(write_json(once), text);
    EXPECT_EQ(write_json(parse_lossless_json(write_json(once), "t")), text);
  }
  EXPECT_EQ(write_json(parse_lossless_json(R"(["\ud83d\ude00"])", "t")), "[\"\xF0\x9F\x98\x80\"]");
}

TEST(LosslessJson, refuses_what_is_not_strict_json) {
  for (const char* text : {"",           "{",           "[1,]",       "{\"a\":1,}", "[1 2]",
                           "{\"a\" 1}",  "{a:1}",       "[01]",       "[1.]",       "[.5]",
                           "[1e]",       "[+1]",        "[NaN]",      "[Infinity]", "['a']",
                           "[\"\\x\"]",  "[\"\\u12\"]", "[\"a\nb\"]", "[1]x",       "\xEF\xBB\xBF[]",
                           "[\"\xff\"]", "tru",         "]",          "[}",         "{\"a\":1,\"a\":1}",
                           "{\"a\":}",   "[,1]",        "// x\n[]",   "-"}) {
    EXPECT_THROW(parse_lossless_json(text, "t"), Error) << text;
  }
  EXPECT_NO_THROW(parse_lossless_json(std::string(256, '[') + std::string(256, ']'), "t"));
  EXPECT_THROW(parse_lossless_json(std::string(257, '[') + std::string(257, ']'), "t"), Error);
}

TEST(Base64, decodes_what_it_encodes_and_nothing_else) {
  for (size_t size = 0; size < 20; ++size) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + size);
    EXPECT_EQ(decode_base64(encode_base64(bytes)), bytes);
  }
  EXPECT_EQ(encode_base64(std::vector<uint8_t>{'f', 'o'}), "Zm8=");
  for (const char* text : {"A", "AA", "AAA", "A===", "AA=A", "AA\nA", "AA-_"})
    EXPECT_FALSE(decode_base64(text)) << text;
}

}  // namespace
}  // namespace cortiq::cmf
