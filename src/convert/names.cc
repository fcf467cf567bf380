#include "convert/names.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cmf/tensor_name.h"
#include "convert/fused.h"

namespace cortiq::convert {
namespace {

// Wrapper prefixes of multimodal checkpoints; the head stands outside the text model (FORMAT_FACTS §0 row 65).
constexpr Rename kWrappers[] = {
    {"model.language_model.lm_head.", "lm_head."}, {"language_model.lm_head.", "lm_head."},
    {"model.language_model.model.", "model."},     {"language_model.model.", "model."},
    {"model.language_model.", "model."},           {"language_model.", "model."},
};

// What all families spell alike.
constexpr Rename kCommon[] = {
    {".mlp.gate.e_score_correction_bias", ".mlp.expert_bias"},
    {".mlp.experts.e_score_correction_bias", ".mlp.expert_bias"},
    {".mlp.shared_experts.", ".mlp.shared_expert."},
};

constexpr std::string_view kMtp = "model.mtp.";

bool replace(std::string& name, const Rename& rename) {
  const size_t at = name.find(rename.from);
  if (at == name.npos) return false;
  name.replace(at, rename.from.size(), rename.to);
  return true;
}

class Mapper {
 public:
  Mapper(const Source& source, const Family& family, const cmf::Arch& arch, const Layout& layout)
      : source_(source), family_(family), arch_(arch), layout_(layout) {}

  Mapping run() {
    for (const SourceTensor& tensor : source_.tensors()) {
      std::string name = canonical(tensor);
      if (!name.empty()) split_fused(source_, tensor, name, arch_, layout_, out_.tensors);
    }
    drop_copies();
    refuse_collisions();
    return std::move(out_);
  }

 private:
  // Empty: dropped.
  std::string canonical(const SourceTensor& tensor) {
    std::string name = tensor.name;
    for (const Left& left : family_.leaves_out) {
      if (name.starts_with(left.prefix)) return drop(tensor, std::string(left.reason));
    }
    for (const Rename& wrapper : kWrappers) {
      if (!name.starts_with(wrapper.from)) continue;
      replace(name, wrapper);
      break;
    }
    if (name.ends_with("rotary_emb.inv_freq") || name.ends_with("rotary_emb.cos_cached") ||
        name.ends_with("rotary_emb.sin_cached")) {
      return drop(tensor, "a rotary table, which the header describes");
    }
    for (const Rename& rename : family_.renames) replace(name, rename);
    for (const Rename& rename : kCommon) replace(name, rename);
    if (name.starts_with("mtp.")) name = "model." + name;
    if (name.starts_with(kMtp)) return qwen_head(name);
    if (const auto layer = cmf::layer_name(name); layer && layer->number >= arch_.num_layers) {
      return deepseek_head(tensor, name, layer->number, layer->rest);
    }
    return name;
  }

  std::string drop(const SourceTensor& tensor, std::string reason) {
    out_.drops.push_back({printable(tensor.name), std::move(reason)});
    return {};
  }

  std::string qwen_head(std::string name) {
    for (const Rename& rename :
         {Rename{"model.mtp.fc.", "model.mtp.eh_proj."}, Rename{"model.mtp.pre_fc_norm_embedding.", "model.mtp.enorm."},
          Rename{"model.mtp.pre_fc_norm_hidden.", "model.mtp.hnorm."}}) {
      replace(name, rename);
    }
    // Read after the final norm (ENGINE_FACTS §21 row 8).
    out_.mtp_hidden = "post";
    return name;
  }

  // DeepSeek and GLM keep the draft head as one more layer, read before the final norm.
  std::string deepseek_head(const SourceTensor& tensor, const std::string& name, uint64_t layer,
                            std::string_view rest) {
    const auto head = [&](uint64_t l) {
      return source_.find(fmt::format("model.layers.{}.eh_proj.weight", l)) != nullptr;
    };
    if (!head(arch_.num_layers)) return name;  // an unknown tensor: more layers than the config says
    if (layer > arch_.num_layers) {
      if (head(layer)) {
        fail(ErrorKind::Unsupported,
             "tensor '{}' belongs to a second draft head (num_nextn_predict_layers); one is supported",
             printable(tensor.name));
      }
      return name;
    }
    out_.mtp_hidden = "pre";
    if (rest == "embed_tokens.weight") return copy_of(tensor, "model.embed_tokens.weight");
    if (rest == "shared_head.head.weight") return copy_of(tensor, "lm_head.weight");
    if (rest == "shared_head.norm.weight") return std::string(kMtp) + "norm.weight";
    for (const std::string_view own : {"eh_proj.weight", "enorm.weight", "hnorm.weight"}) {
      if (rest == own) return std::string(kMtp) + std::string(own);
    }
    return std::string(kMtp) + "layers.0." + std::string(rest);
  }

  std::string copy_of(const SourceTensor& tensor, std::string name) {
    copies_.emplace_back(&tensor, std::move(name));
    return {};
  }

  // The draft head's embedding and output matrix are the trunk's; a different one has no place in the container.
  void drop_copies() {
    for (const auto& [tensor, name] : copies_) {
      const auto at = std::find_if(out_.tensors.begin(), out_.tensors.end(),
                                   [&wanted = name](const Mapped& one) { return one.name == wanted; });
      // A tied trunk has no head of its own: its embedding is what the copy must equal.
      const auto embedding = std::find_if(out_.tensors.begin(), out_.tensors.end(),
                                          [](const Mapped& one) { return one.name == "model.embed_tokens.weight"; });
      const auto original = at != out_.tensors.end() ? at : embedding;
      if (original == out_.tensors.end() ||
          !same_values(source_, *tensor, *original->recipe.source, *original->recipe.tensor)) {
        fail(ErrorKind::Unsupported, "tensor '{}' differs from '{}': a draft head with its own matrix is not supported",
             printable(tensor->name), name);
      }
      out_.drops.push_back({printable(tensor->name), "a copy of " + original->name});
    }
  }

  void refuse_collisions() const {
    std::unordered_map<std::string_view, const Mapped*> seen;
    for (const Mapped& one : out_.tensors) {
      const auto [at, fresh] = seen.emplace(one.name, &one);
      if (!fresh) {
        fail(ErrorKind::Parse, "tensors '{}' and '{}' both become '{}'", printable(at->second->recipe.tensor->name),
             printable(one.recipe.tensor->name), printable(one.name));
      }
    }
  }

  const Source& source_;
  const Family& family_;
  const cmf::Arch& arch_;
  const Layout& layout_;
  Mapping out_;
  std::vector<std::pair<const SourceTensor*, std::string>> copies_;
};

}  // namespace

Mapping map_names(const Source& source, const Family& family, const cmf::Arch& arch, const Layout& layout) {
  return Mapper(source, family, arch, layout).run();
}

codec::Shape container_shape(const std::vector<uint64_t>& shape, std::string_view name) {
  codec::Shape out;
  if (shape.size() > codec::Shape::kMaxRank) {
    fail(ErrorKind::Unsupported, "tensor '{}' has {} dimensions; the container holds at most {}", printable(name),
         shape.size(), codec::Shape::kMaxRank);
  }
  for (const uint64_t size : shape) {
    if (size > UINT32_MAX) {
      fail(ErrorKind::Unsupported, "tensor '{}' has a dimension of {}; the container holds 32 bits", printable(name),
           size);
    }
    out.dims[out.rank++] = static_cast<uint32_t>(size);
  }
  return out;
}

}  // namespace cortiq::convert
