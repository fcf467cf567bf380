#include "convert/head.h"

#include <algorithm>

#include "convert/fused.h"

namespace cortiq::convert {
namespace {

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

auto find(Mapping& mapping, std::string_view name) {
  return std::find_if(mapping.tensors.begin(), mapping.tensors.end(),
                      [&](const Mapped& one) { return one.name == name; });
}

}  // namespace

void settle_head(Mapping& mapping, Described& model) {
  const auto embedding = find(mapping, kEmbedding), head = find(mapping, kHead);
  const auto end = mapping.tensors.end();
  bool& tied = model.arch.tie_word_embeddings;
  if (embedding == end && (head == end || !tied)) fail(ErrorKind::Parse, "tensor '{}' is missing", kEmbedding);
  const uint64_t rows = (embedding != end ? embedding : head)->shape.front();
  if (embedding == end) {
    head->name = kEmbedding;
    model.notes.push_back(fmt::format("tied, and only '{}' is there: written as '{}'", kHead, kEmbedding));
  } else if (head == end && !tied) {
    fail(ErrorKind::Parse,
         "tensor '{}' is missing, and tie_word_embeddings is false (said or by default): the output matrix is unknown",
         kHead);
  } else if (head != end && tied) {
    const bool equal =
        same_values(*embedding->recipe.source, *embedding->recipe.tensor, *head->recipe.source, *head->recipe.tensor);
    if (equal) {
      model.notes.push_back(fmt::format("'{}' equals '{}': written tied, the copy is left out", kHead, kEmbedding));
      mapping.drops.push_back({printable(head->recipe.tensor->name), fmt::format("a copy of {}", kEmbedding)});
      mapping.tensors.erase(head);
    } else {
      tied = false;
      model.warnings.push_back(
          fmt::format("the config says tie_word_embeddings, yet '{}' differs from '{}': the head is used and written",
                      kHead, kEmbedding));
    }
  }
  if (rows != model.arch.vocab_size) {
    model.warnings.push_back(
        fmt::format("vocab_size is {}, '{}' has {} rows: the rows count", model.arch.vocab_size, kEmbedding, rows));
    model.arch.vocab_size = rows;
  }
}

void settle_draft_head(const Mapping& mapping, const Checkpoint& checkpoint, Described& model) {
  model.arch.mtp.reset();
  if (!mapping.mtp_hidden.empty()) {
    cmf::Mtp mtp;
    mtp.hidden = mapping.mtp_hidden;
    model.arch.mtp = mtp;
    const auto is_router = [](const Mapped& one) { return one.name == "model.mtp.layers.0.mlp.gate.weight"; };
    model.layout.sparse_mtp = std::any_of(mapping.tensors.begin(), mapping.tensors.end(), is_router);
    if (model.layout.sparse_mtp && !model.arch.moe) {
      fail(ErrorKind::Parse, "the draft head has a router, but the config has no experts");
    }
    return;
  }
  const auto nested = checkpoint.config.find("text_config");
  const Json& text = nested != checkpoint.config.end() && nested->is_object() ? *nested : checkpoint.config;
  for (const char* key : {"mtp_num_hidden_layers", "num_nextn_predict_layers"}) {
    const auto at = text.find(key);
    if (at != text.end() && at->is_number() && at->get<double>() > 0) {
      model.notes.push_back(fmt::format("{} is {}, but the checkpoint has no draft head", key, at->dump()));
    }
  }
}

}  // namespace cortiq::convert
