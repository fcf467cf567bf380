#include "convert/gguf/architecture.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cortiq::convert::gguf {
namespace {

const std::vector<Architecture>& table() {
  static const std::vector<Architecture> rows = {
      {.name = "llama", .model_type = "llama", .interleaved = true},
      {.name = "qwen2", .model_type = "qwen2"},
      {.name = "qwen3", .model_type = "qwen3"},
      {.name = "gemma", .model_type = "gemma", .gemma = true},
      {.name = "gemma2",
       .model_type = "gemma2",
       .gemma = true,
       .own_keys = {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"}},
      {.name = "gemma3",
       .model_type = "gemma3_text",
       .gemma = true,
       .own_keys = {"attention.sliding_window", "rope.freq_base_swa"}},
  };
  return rows;
}

// tensor_data_layout and rope.scaling.finetuned say how the file came about.
constexpr std::string_view kKeys[] = {"block_count",
                                      "context_length",
                                      "embedding_length",
                                      "feed_forward_length",
                                      "attention.head_count",
                                      "attention.head_count_kv",
                                      "attention.key_length",
                                      "attention.value_length",
                                      "attention.layer_norm_rms_epsilon",
                                      "rope.freq_base",
                                      "rope.dimension_count",
                                      "rope.scaling.type",
                                      "rope.scaling.factor",
                                      "rope.scaling.original_context_length",
                                      "rope.scaling.finetuned",
                                      "rope.scaling.yarn_beta_fast",
                                      "rope.scaling.yarn_beta_slow",
                                      "rope.scaling.attn_factor",
                                      "vocab_size",
                                      "tensor_data_layout"};

/// The keys below the architecture's name.
class Keys {
 public:
  Keys(const File& file, const Architecture& architecture)
      : file_(file), prefix_(std::string(architecture.name) + '.') {}

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  uint64_t size(std::string_view key) const {
    const std::vector<uint64_t> values = file_.counts(full(key));
    if (values.empty()) fail(ErrorKind::Parse, "'{}' is missing", full(key));
    if (std::any_of(values.begin(), values.end(), [&](uint64_t v) { return v != values[0]; })) {
      fail(ErrorKind::Unsupported, "'{}' differs from block to block", full(key));
    }
    if (values[0] == 0 || values[0] > INT32_MAX) fail(ErrorKind::Parse, "'{}' is {}", full(key), values[0]);
    return values[0];
  }
  uint64_t size(std::string_view key, uint64_t fallback) const { return file_.has(full(key)) ? size(key) : fallback; }

  double positive(std::string_view key) const {
    const auto value = file_.number(full(key));
    if (!value) fail(ErrorKind::Parse, "'{}' is missing", full(key));
    if (*value <= 0) fail(ErrorKind::Parse, "'{}' is {}: a positive number expected", full(key), *value);
    return *value;
  }
  double positive(std::string_view key, double fallback) const {
    return file_.has(full(key)) ? positive(key) : fallback;
  }

  void refuse_unknown(const Architecture& architecture) const {
    const auto among = [](const auto& list, std::string_view key) {
      return std::find(std::begin(list), std::end(list), key) != std::end(list);
    };
    for (const std::string_view whole : file_.keys()) {
      if (!whole.starts_with(prefix_)) continue;
      const std::string_view key = whole.substr(prefix_.size());
      if (among(kKeys, key) || among(architecture.own_keys, key)) continue;
      fail(ErrorKind::Unsupported, "the key '{}' is not known: a model that needs it would be wrong without it",
           printable(whole, 100));
    }
  }

  const File& file() const noexcept { return file_; }

 private:
  const File& file_;
  std::string prefix_;
};

Json rotary_scaling(const Keys& keys, const Sizes& sizes, uint64_t context, const std::vector<float>& factors) {
  const std::string kind(keys.file().text(keys.full("rope.scaling.type")).value_or("none"));
  if (!factors.empty()) {
    if (kind != "none")
      fail(ErrorKind::Unsupported, "rope scaling '{}' beside a tensor of factors", printable(kind, 40));
    if (factors.size() != sizes.head_dim / 2) {
      fail(ErrorKind::Parse, "{} rotary factors for a head of {}", factors.size(), sizes.head_dim);
    }
    // One list for all lengths: what "longrope" says when both lists are the same.
    Json block = {{"rope_type", "longrope"}, {"original_max_position_embeddings", context}, {"attention_factor", 1.0}};
    block["short_factor"] = factors;
    block["long_factor"] = factors;
    return block;
  }
  if (kind == "none") return nullptr;
  if (kind != "linear" && kind != "yarn") {
    fail(ErrorKind::Unsupported, "rope scaling '{}' cannot be written; linear and yarn can", printable(kind, 40));
  }
  const double factor = keys.positive("rope.scaling.factor");
  Json block = {{"rope_type", kind}, {"factor", factor}};
  if (kind == "yarn") {
    block["original_max_position_embeddings"] = keys.size("rope.scaling.original_context_length");
    block["beta_fast"] = keys.positive("rope.scaling.yarn_beta_fast", 32);
    block["beta_slow"] = keys.positive("rope.scaling.yarn_beta_slow", 1);
    if (keys.file().has(keys.full("rope.scaling.attn_factor"))) {
      const double growth = factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
      block["attention_factor"] = keys.positive("rope.scaling.attn_factor") * growth;
    }
  }
  return block;
}

void gemma_keys(const Keys& keys, const Architecture& architecture, const Sizes& sizes, Json& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (architecture.name == "gemma") return;
  // The 27B models are the ones whose attention is not scaled by the size of a head; there is no key for it.
  const uint64_t largest = architecture.name == "gemma2" ? 46 : 62;
  config["query_pre_attn_scalar"] = sizes.layers == largest ? sizes.hidden / sizes.heads : sizes.head_dim;
  config["sliding_window"] = architecture.name == "gemma2" ? keys.size("attention.sliding_window", 4096)
                                                           : keys.size("attention.sliding_window");
  if (architecture.name == "gemma2") {
    config["attn_logit_softcapping"] = keys.positive("attn_logit_softcapping", 50);
    config["final_logit_softcapping"] = keys.positive("final_logit_softcapping", 30);
  } else {
    config["rope_local_base_freq"] = keys.positive("rope.freq_base_swa", 10000);
  }
}

// Shapes by symbol: V vocabulary, H hidden, F intermediate, Q all query heads, K all key heads, D one head.
struct TensorName {
  std::string_view gguf, hf, shape;
  char heads = 0;  ///< Q or K: interleaved rows where the architecture has them
};
constexpr TensorName kTop[] = {
    {"token_embd.weight", "model.embed_tokens.weight", "VH"},
    {"output_norm.weight", "model.norm.weight", "H"},
    {"output.weight", "lm_head.weight", "VH"},
};
constexpr TensorName kBlock[] = {
    {"attn_norm.weight", "input_layernorm.weight", "H"},    {"attn_q.weight", "self_attn.q_proj.weight", "QH", 'Q'},
    {"attn_q.bias", "self_attn.q_proj.bias", "Q", 'Q'},     {"attn_k.weight", "self_attn.k_proj.weight", "KH", 'K'},
    {"attn_k.bias", "self_attn.k_proj.bias", "K", 'K'},     {"attn_v.weight", "self_attn.v_proj.weight", "KH"},
    {"attn_v.bias", "self_attn.v_proj.bias", "K"},          {"attn_output.weight", "self_attn.o_proj.weight", "HQ"},
    {"attn_output.bias", "self_attn.o_proj.bias", "H"},     {"attn_q_norm.weight", "self_attn.q_norm.weight", "D"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", "D"}, {"ffn_norm.weight", "post_attention_layernorm.weight", "H"},
    {"ffn_gate.weight", "mlp.gate_proj.weight", "FH"},      {"ffn_up.weight", "mlp.up_proj.weight", "FH"},
    {"ffn_down.weight", "mlp.down_proj.weight", "HF"},
};
// Sandwich norms (gemma2, gemma3): they come before the table above.
constexpr TensorName kSandwich[] = {
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", "H"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", "H"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", "H"},
};

const TensorName* find(std::span<const TensorName> names, std::string_view name) noexcept {
  const auto at = std::find_if(names.begin(), names.end(), [name](const TensorName& one) { return one.gguf == name; });
  return at == names.end() ? nullptr : &*at;
}

uint64_t size_of(char symbol, const Sizes& s) noexcept {
  switch (symbol) {
    case 'V':
      return s.vocabulary;
    case 'H':
      return s.hidden;
    case 'F':
      return s.intermediate;
    case 'Q':
      return s.heads * s.head_dim;
    case 'K':
      return s.kv_heads * s.head_dim;
    default:
      return s.head_dim;
  }
}

}  // namespace

const Architecture& find_architecture(const File& file) {
  const auto name = file.text("general.architecture");
  if (!name) fail(ErrorKind::Parse, "'general.architecture' is missing");
  for (const Architecture& one : table()) {
    if (one.name == *name) return one;
  }
  std::string known;
  for (const Architecture& one : table()) known += (known.empty() ? "" : ", ") + std::string(one.name);
  fail(ErrorKind::Unsupported, "the architecture '{}' cannot be read from GGUF; known are {}", printable(*name, 60),
       known);
}

Sizes read_sizes(const File& file, const Architecture& architecture, uint64_t vocabulary, uint64_t tensors) {
  const Keys keys(file, architecture);
  Sizes s;
  s.vocabulary = vocabulary;
  s.layers = keys.size("block_count");
  if (s.layers > tensors) {
    fail(ErrorKind::Parse, "'{}' is {}, there are {} tensors", keys.full("block_count"), s.layers, tensors);
  }
  s.hidden = keys.size("embedding_length");
  s.intermediate = keys.size("feed_forward_length");
  s.heads = keys.size("attention.head_count");
  s.kv_heads = keys.size("attention.head_count_kv", s.heads);
  if (s.heads % s.kv_heads != 0)
    fail(ErrorKind::Parse, "{} heads are no multiple of {} key heads", s.heads, s.kv_heads);
  if (!file.has(keys.full("attention.key_length")) && s.hidden % s.heads != 0) {
    fail(ErrorKind::Parse, "a width of {} cannot be shared by {} heads", s.hidden, s.heads);
  }
  s.head_dim = keys.size("attention.key_length", s.hidden / s.heads);
  if (const uint64_t values = keys.size("attention.value_length", s.head_dim); values != s.head_dim) {
    fail(ErrorKind::Unsupported, "keys of {} and values of {}: one size for both can be written", s.head_dim, values);
  }
  if (s.head_dim % 2 != 0) fail(ErrorKind::Parse, "heads of {}: an odd size cannot rotate", s.head_dim);
  return s;
}

Json make_config(const File& file, const Architecture& architecture, const Sizes& sizes, bool tied,
                 const std::vector<float>& rotary_factors) {
  const Keys keys(file, architecture);
  keys.refuse_unknown(architecture);
  const uint64_t context = keys.size("context_length");
  Json config = {{"model_type", architecture.model_type},
                 {"hidden_size", sizes.hidden},
                 {"intermediate_size", sizes.intermediate},
                 {"num_hidden_layers", sizes.layers},
                 {"num_attention_heads", sizes.heads},
                 {"num_key_value_heads", sizes.kv_heads},
                 {"head_dim", sizes.head_dim},
                 {"vocab_size", sizes.vocabulary},
                 {"max_position_embeddings", context},
                 {"rms_norm_eps", keys.positive("attention.layer_norm_rms_epsilon")},
                 {"rope_theta", keys.positive("rope.freq_base", 10000)},
                 {"tie_word_embeddings", tied}};
  const uint64_t rotary = keys.size("rope.dimension_count", sizes.head_dim);
  if (rotary > sizes.head_dim) fail(ErrorKind::Parse, "{} rotary dimensions in heads of {}", rotary, sizes.head_dim);
  if (rotary != sizes.head_dim) {
    config["partial_rotary_factor"] = static_cast<double>(rotary) / static_cast<double>(sizes.head_dim);
  }
  if (Json scaling = rotary_scaling(keys, sizes, context, rotary_factors); !scaling.is_null()) {
    config["rope_scaling"] = std::move(scaling);
  }
  if (architecture.gemma) gemma_keys(keys, architecture, sizes, config);
  return config;
}

Named name_tensor(std::string_view name, const Architecture& architecture, const Sizes& sizes) {
  Named out;
  if (name == "rope_freqs.weight") {
    out.shape = {sizes.head_dim / 2};
    return out;
  }
  const TensorName* found = find(kTop, name);
  if (found == nullptr && name.starts_with("blk.")) {
    uint64_t block = 0;
    const auto [end, error] = std::from_chars(name.data() + 4, name.data() + name.size(), block);
    if (error == std::errc() && end != name.data() + name.size() && *end == '.') {
      if (block >= sizes.layers) {
        fail(ErrorKind::Parse, "tensor '{}' belongs to block {} of {}", printable(name, 80), block, sizes.layers);
      }
      const std::string_view part = name.substr(static_cast<size_t>(end + 1 - name.data()));
      if (architecture.gemma && architecture.name != "gemma") found = find(kSandwich, part);
      if (found == nullptr) found = find(kBlock, part);
      out.name = fmt::format("model.layers.{}.", block);
    }
  }
  if (found == nullptr) {
    fail(ErrorKind::Unsupported, "tensor '{}' is not known: a model that needs it would be wrong without it",
         printable(name, 80));
  }
  out.name += found->hf;
  for (const char symbol : found->shape) out.shape.push_back(size_of(symbol, sizes));
  if (architecture.interleaved && found->heads != 0) out.heads = found->heads == 'Q' ? sizes.heads : sizes.kv_heads;
  out.one_plus = architecture.gemma && name.ends_with("norm.weight");
  return out;
}

}  // namespace cortiq::convert::gguf
