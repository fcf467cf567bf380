#include "convert/describe.h"

#include <algorithm>

#include "convert/config_rules.h"

namespace cortiq::convert {
namespace {

// Far above any model; what a loop over layers may cost before the first tensor is missed.
constexpr uint64_t kMaxLayers = 100'000;
constexpr uint64_t kMaxHeadDim = 65'536;

cmf::Activation activation(const Config& config, const Family& family) {
  // The newer key wins, unless it is null (ENGINE_FACTS §6).
  const std::string_view key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  std::string name = config.text(key).value_or("silu");
  for (const Rename& same : family.same_activations) {
    if (name == same.from) name = same.to;
  }
  if (name == "silu" || name == "swish") return cmf::Activation::Silu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_tanh" || name == "gelu_new") return cmf::Activation::GeluTanh;
  config.refuse(key, "only silu and the tanh form of gelu can be written");
}

void sizes(const Config& config, cmf::Arch& arch) {
  arch.hidden_size = config.count("hidden_size");
  arch.num_layers = config.count("num_hidden_layers");
  if (arch.num_layers > kMaxLayers) config.malformed("num_hidden_layers", fmt::format("at most {} layers", kMaxLayers));
  arch.num_attention_heads = config.count("num_attention_heads");
  arch.num_kv_heads = config.count("num_key_value_heads", arch.num_attention_heads);
  if (arch.num_attention_heads % arch.num_kv_heads != 0) {
    config.malformed("num_key_value_heads",
                     fmt::format("a divisor of the {} attention heads", arch.num_attention_heads));
  }
  if (config.has("head_dim")) {
    arch.head_dim = config.count("head_dim");
  } else {
    arch.head_dim = arch.hidden_size / arch.num_attention_heads;
    if (arch.head_dim * arch.num_attention_heads != arch.hidden_size) {
      config.malformed("head_dim", fmt::format("a value, because hidden_size {} is no multiple of the {} heads,",
                                               arch.hidden_size, arch.num_attention_heads));
    }
  }
  if (arch.head_dim > kMaxHeadDim) config.malformed("head_dim", fmt::format("at most {}", kMaxHeadDim));
  arch.vocab_size = config.count("vocab_size");
  arch.intermediate_size =
      config.has("intermediate_size") ? config.count("intermediate_size") : config.count("moe_intermediate_size", 0);
  if (arch.intermediate_size == 0) config.malformed("intermediate_size", "a positive integer");
  arch.max_position_embeddings = config.count("max_position_embeddings", 32768);
  const std::string_view eps = config.has("rms_norm_eps") ? "rms_norm_eps" : "norm_eps";
  arch.rms_norm_eps = config.number(eps, 1e-6);
  if (arch.rms_norm_eps <= 0) config.malformed(eps, "a positive number");
}

void biases(const Config& config, Layout& layout) {
  if (config.flag("attention_bias")) {
    layout.qkv_bias = layout.o_bias = Layout::Bias::Required;
    layout.bias_key = "attention_bias";
  }
  if (config.flag("mlp_bias")) {
    layout.mlp_bias = Layout::Bias::Required;
    layout.bias_key += layout.bias_key.empty() ? "mlp_bias" : " and mlp_bias";
  }
}

// The smallest P with: layer l is global exactly where (l+1) mod P = 0. Readers that know no tags go by it (§4).
std::optional<uint64_t> regular_pattern(const std::vector<cmf::LayerType>& types) {
  const auto global = std::find(types.begin(), types.end(), cmf::LayerType::FullAttention);
  if (global == types.end() || global == types.begin()) return std::nullopt;
  const auto period = static_cast<size_t>(global - types.begin()) + 1;
  for (size_t l = 0; l < types.size(); ++l) {
    const auto expected = (l + 1) % period == 0 ? cmf::LayerType::FullAttention : cmf::LayerType::SlidingAttention;
    if (types[l] != expected) return std::nullopt;
  }
  return period;
}

void special_ids(const Config& top, const Config& config, Described& out) {
  for (const Config* level : {&top, &config}) {
    for (const uint32_t id : level->ids("eos_token_id")) out.eos.push_back(id);
    const auto first = [&](std::string_view key, std::optional<uint32_t>& id) {
      const std::vector<uint32_t> ids = level->ids(key);
      if (!id && !ids.empty()) id = ids.front();
    };
    first("bos_token_id", out.bos);
    first("pad_token_id", out.pad);
  }
}

}  // namespace

Described describe(const Checkpoint& checkpoint) {
  const std::string where = checkpoint.config_path + ": ";
  const Json& root = checkpoint.config;
  if (!root.is_object()) fail(ErrorKind::Parse, "{}an object expected", where);
  const Config top(root, nullptr, where);

  Described out;
  out.family = &find_family(top);
  const Json defaults = parse_json(out.family->defaults, "defaults of the family");
  const auto nested = top.inner("text_config");
  const Config config = nested ? Config(nested->object(), &defaults, nested->where()) : Config(root, &defaults, where);
  check_rules(config, *out.family);
  if (nested) check_rules(top, *out.family);

  cmf::Arch& arch = out.arch;
  arch.arch_name = *top.text("model_type");
  sizes(config, arch);
  arch.layer_types.assign(arch.num_layers, cmf::LayerType::FullAttention);
  arch.hidden_act = activation(config, *out.family);
  arch.tie_word_embeddings =
      nested && top.has("tie_word_embeddings") ? top.flag("tie_word_embeddings") : config.flag("tie_word_embeddings");
  out.layout.dense_width = arch.intermediate_size;
  biases(config, out.layout);

  RopeRules rope;
  Description description{config, top, arch, out.layout, rope, out.notes, out.warnings};
  out.family->describe(description);
  resolve_rope(config, rope, arch, out.notes, out.warnings);
  if (!arch.sliding_window_pattern) arch.sliding_window_pattern = regular_pattern(arch.layer_types);

  special_ids(top, config, out);
  out.rope = Json::object();
  for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq"}) {
    if (const Json* value = config.written(key)) out.rope[key] = *value;
  }
  note_unread(top, config, out.notes);
  return out;
}

}  // namespace cortiq::convert
