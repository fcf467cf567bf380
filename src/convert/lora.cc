#include "convert/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "convert/config.h"
#include "convert/safetensors.h"

namespace cortiq::convert {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

// Keys of adapter_config.json with which an adapter is more than W + scale·B·A, and the values that ask for nothing.
struct Rule {
  std::string_view key, neutral, why;
};
constexpr Rule kRules[] = {
    {"use_dora", "[false]", "weight-decomposed adapters (DoRA) are not supported"},
    {"fan_in_fan_out", "[false]", "transposed weights are not supported"},
    {"lora_bias", "[false]", "biases in adapters are not supported"},
    {"bias", "[\"none\"]", "trained biases are not supported"},
    {"alpha_pattern", "[{}]", "a scale per layer is not supported"},
    {"rank_pattern", "[{}]", "a rank per layer is not supported"},
    {"layer_replication", "[[]]", "replicated layers are not supported"},
    {"megatron_config", "[{}]", "this layout is not supported"},
    {"use_qalora", "[false]", "quantised adapters are not supported"},
    {"exclude_modules", "[[]]", "is not needed beside the adapter's own tensors; remove it"},
    {"trainable_token_indices", "[[], {}]", "trained tokens are not supported"},
};

void check_rules(const Config& config) {
  if (const auto type = config.text("peft_type"); type && *type != "LORA")
    config.refuse("peft_type", "only LORA is supported");
  for (const Rule& rule : kRules) {
    const Json* value = config.written(rule.key);
    if (!value || value->is_null()) continue;
    const Json neutral = parse_json(rule.neutral, "rules");
    if (std::find(neutral.begin(), neutral.end(), *value) == neutral.end()) config.refuse(rule.key, rule.why);
  }
}

// "model.layers.0.self_attn.q_proj" of "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::string module_of(std::string_view name, std::string_view ending) {
  name.remove_suffix(ending.size());
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::string(name);
}

bool ends(const std::string& name, std::string_view ending) { return name.ends_with(ending); }

}  // namespace

Lora Lora::open(const std::string& directory, FileSystem& files) {
  const std::string path = join_path(directory, "adapter_config.json");
  const Json json = parse_json(files.read_all(path), path, {.depth = 64, .allow_bom = true});
  if (!json.is_object()) fail(ErrorKind::Parse, "{}: an object expected", path);
  const Config config(json, nullptr, path + ": ");
  check_rules(config);
  const double rank = static_cast<double>(config.count("r")), alpha = config.number("lora_alpha");
  const double scale = config.flag("use_rslora") ? alpha / std::sqrt(rank) : alpha / rank;

  Lora out;
  out.source_ = open_safetensors_file(join_path(directory, "adapter_model.safetensors"), files);
  std::map<std::string, Target> pairs;
  for (const SourceTensor& tensor : out.source_->tensors()) {
    if (!out.source_->readable(tensor)) {
      fail(ErrorKind::Unsupported, "{}: tensor '{}' has dtype {}", directory, printable(tensor.name), tensor.dtype);
    }
    const bool down = ends(tensor.name, ".lora_A.weight"), up = ends(tensor.name, ".lora_B.weight");
    if (down || up) {
      Target& target = pairs[module_of(tensor.name, ".lora_A.weight") + ".weight"];
      (down ? target.a : target.b) = &tensor;
      target.scale = static_cast<float>(scale);
      continue;
    }
    // modules_to_save: whole tensors under their module's name.
    std::string name = module_of(tensor.name, "");
    for (const std::string_view part : {".modules_to_save.default", ".modules_to_save"}) {
      if (const size_t at = name.find(part); at != name.npos) name.erase(at, part.size());
    }
    if (name.find("lora_") != name.npos || !(ends(name, ".weight") || ends(name, ".bias"))) {
      fail(ErrorKind::Unsupported, "{}: tensor '{}' is no part of a plain low-rank adapter", directory,
           printable(tensor.name));
    }
    if (!pairs.emplace(name, Target{{}, nullptr, &tensor, 0}).second) {
      fail(ErrorKind::Parse, "{}: '{}' is changed twice", directory, printable(name));
    }
  }
  for (auto& [name, target] : pairs) {
    target.name = name;
    if (!target.b || (target.scale != 0 && !target.a)) {
      fail(ErrorKind::Parse, "{}: '{}' has only one of lora_A and lora_B", directory, printable(name));
    }
    if (!target.a) {
      out.targets_.push_back(target);
      continue;
    }
    const auto &a = *target.a, &b = *target.b;
    if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[0] != b.shape[1] ||
        static_cast<double>(a.shape[0]) != rank) {
      fail(ErrorKind::Bounds, "{}: '{}': lora_A {} and lora_B {} do not fit rank {}", directory, printable(name),
           a.shape_text(), b.shape_text(), rank);
    }
    out.targets_.push_back(target);
  }
  if (out.targets_.empty()) fail(ErrorKind::Parse, "{}: the adapter holds no tensor", directory);
  return out;
}

void Lora::merge(const Target& target, std::span<float> weights, uint64_t rows, uint64_t cols, ThreadPool& pool) const {
  const SourceTensor& b = *target.b;
  if (checked_multiply(rows, cols) != weights.size())
    fail(ErrorKind::Usage, "{} weights for {} x {}", weights.size(), rows, cols);
  if (!target.a) {
    if (b.elements() != weights.size() || b.cols() != cols) {
      fail(ErrorKind::Bounds, "adapter: '{}' has shape {}, the base {} x {}", printable(target.name), b.shape_text(),
           rows, cols);
    }
    source_->read_rows(b, 0, b.rows(), weights.data());
    return;
  }
  const SourceTensor& a = *target.a;
  if (b.shape[0] != rows || a.shape[1] != cols) {
    fail(ErrorKind::Bounds, "adapter: '{}' changes a {} x {} matrix, the base has {} x {}", printable(target.name),
         b.shape[0], a.shape[1], rows, cols);
  }
  const uint64_t rank = a.shape[0];
  std::vector<float> down(rank * cols), up(rows * rank);
  source_->read_rows(a, 0, rank, down.data());
  source_->read_rows(b, 0, rows, up.data());
  pool.run(rows, [&](size_t row) {
    std::vector<float> delta(cols, 0.0f);
    for (uint64_t k = 0; k < rank; ++k) {
      const float factor = up[row * rank + k];
      for (uint64_t c = 0; c < cols; ++c) delta[c] += factor * down[k * cols + c];
    }
    for (uint64_t c = 0; c < cols; ++c) weights[row * cols + c] += target.scale * delta[c];
  });
}

}  // namespace cortiq::convert
