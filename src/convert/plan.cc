#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "codec/quant.h"
#include "convert/chat_bundle.h"
#include "convert/convert.h"
#include "convert/defrag.h"
#include "convert/describe.h"
#include "convert/dtypes.h"
#include "convert/expert_budget.h"
#include "convert/head.h"
#include "convert/names.h"
#include "cortiq/version.h"

namespace cortiq::convert {
namespace {

// Compares what is there with what a model of this kind has: names and shapes both.
class Inspection {
 public:
  Inspection(const Mapping& mapping, const Described& model) : model_(model) {
    for (const Mapped& one : mapping.tensors) by_name_.emplace(one.name, &one);
  }

  /// Names of the source's tensors that no model of this family has.
  std::vector<const Mapped*> run() {
    for_each_expected(model_.arch, model_.layout, [&](const Expected& one) { look_at(one); });
    for (const auto& [group, state] : groups_) {
      if (state.there > 0 && !state.first_missing.empty()) {
        fail(ErrorKind::Parse, "tensor '{}' is missing, although other layers have one", state.first_missing);
      }
    }
    std::vector<const Mapped*> unknown;
    for (const auto& [name, tensor] : by_name_) {
      if (!seen_.contains(name)) unknown.push_back(tensor);
    }
    std::sort(unknown.begin(), unknown.end(), [](const Mapped* a, const Mapped* b) { return a->name < b->name; });
    return unknown;
  }

 private:
  void look_at(const Expected& expected) {
    const auto at = by_name_.find(expected.name);
    if (at == by_name_.end()) return missing(expected);
    seen_.insert(at->first);
    if (expected.presence == Expected::Presence::Together) ++groups_[std::string(expected.group)].there;
    const Mapped& tensor = *at->second;
    const codec::Shape shape = container_shape(tensor.shape, tensor.recipe.tensor->name);
    if (shape == expected.shape || (expected.other.rank != 0 && shape == expected.other)) return;
    fail(ErrorKind::Bounds, "tensor '{}' has shape {}, the config asks for {}", printable(tensor.name), shape.text(),
         expected.shape.text());
  }

  void missing(const Expected& expected) {
    if (expected.presence == Expected::Presence::Together) {
      std::string& first = groups_[std::string(expected.group)].first_missing;
      if (first.empty()) first = expected.name;
      return;
    }
    const bool bias = expected.name.ends_with(".bias");
    fail(ErrorKind::Parse, "tensor '{}' {} is missing{}", printable(expected.name), expected.shape.text(),
         bias ? ", although the config claims it with " + model_.layout.bias_key : "");
  }

  struct Group {
    uint64_t there = 0;
    std::string first_missing;
  };
  const Described& model_;
  std::unordered_map<std::string_view, const Mapped*> by_name_;
  std::unordered_set<std::string_view> seen_;
  std::map<std::string, Group> groups_;
};

void refuse_or_drop_unknown(Mapping& mapping, Described& model, bool allow) {
  const std::vector<const Mapped*> unknown = Inspection(mapping, model).run();
  if (unknown.empty()) return;
  const std::string first = printable(unknown.front()->recipe.tensor->name);
  if (!allow) {
    fail(ErrorKind::Unsupported,
         "tensor '{}' {}is not known to the family '{}': a model that needs it would be wrong without it "
         "(--allow-unknown leaves it out)",
         first, unknown.size() > 1 ? fmt::format("(and {} more) ", unknown.size() - 1) : "", model.family->name);
  }
  std::unordered_set<std::string> names;
  for (const Mapped* one : unknown) {
    names.insert(one->name);
    const std::string name = printable(one->recipe.tensor->name);
    mapping.drops.push_back({name, "not known to the family"});
    model.warnings.push_back(fmt::format("tensor '{}' is not known to the family and is left out", name));
  }
  std::erase_if(mapping.tensors, [&](const Mapped& one) { return names.contains(one.name); });
}

std::vector<PlannedTensor> plan_tensors(const Mapping& mapping, DtypeRules& rules) {
  std::vector<PlannedTensor> out;
  for (const Mapped& one : mapping.tensors) {
    const SourceTensor& from = *one.recipe.tensor;
    if (!one.recipe.source->readable(from)) {
      fail(ErrorKind::Unsupported,
           "tensor '{}' has dtype {}, which is no plain number format: weights must be F32, F16, BF16 or F64",
           printable(from.name), printable(from.dtype, 40));
    }
    PlannedTensor tensor;
    tensor.name = one.name;
    tensor.source = printable(from.name);
    tensor.shape = container_shape(one.shape, from.name);
    tensor.recipe = one.recipe;
    tensor.note = one.note;
    rules.apply(tensor);
    out.push_back(std::move(tensor));
  }
  std::sort(out.begin(), out.end(),
            [](const PlannedTensor& a, const PlannedTensor& b) { return cmf::canonical_less(a.name, b.name); });
  return out;
}

Json header(const Plan& plan, const Described& model, const codec::Quant& quant, const Json& chat) {
  Json out;
  out["format"] = "cmf";
  out["version"] = 2;
  out["arch"] = cmf::write_arch(plan.arch);
  out["quant_type"] = codec::quant_label(quant);
  std::string path = plan.checkpoint->path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  Json& provenance = out["provenance"];
  provenance["tool"] = "cortiq " CORTIQ_VERSION;
  provenance["source_model"] = printable(file_name_of(path));
  provenance["source_format"] = plan.checkpoint->format;
  if (!model.rope.empty()) provenance["source_rope"] = model.rope;
  if (!model.defrag.is_null()) provenance["defrag"] = model.defrag;
  if (!chat.is_null()) out["tokenizer_config"] = chat;
  return out;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Plan make_plan(const std::string& path, const ConvertOptions& options, ThreadPool& pool, FileSystem& files) {
  return make_plan(std::make_shared<Checkpoint>(open_checkpoint(path, files)), options, pool, files);
}

Plan make_plan(std::shared_ptr<Checkpoint> checkpoint, const ConvertOptions& options, ThreadPool& pool,
               FileSystem& files) {
  DtypeRules rules(options);
  Plan plan;
  plan.checkpoint = checkpoint;
  Described model = describe(*checkpoint);
  const Source& source = checkpoint->weights();
  plan.sources.push_back(checkpoint->source);
  plan.source_bytes = source.bytes();

  with_context(checkpoint->path, [&] {
    Mapping mapping = map_names(source, *model.family, model.arch, model.layout);
    settle_head(mapping, model);
    settle_draft_head(mapping, *checkpoint, model);
    refuse_or_drop_unknown(mapping, model, options.allow_unknown);
    if (!options.defrag.empty()) {
      cut_neurons(options, files, mapping, model, plan.sources, pool);
    }
    plan.tensors = plan_tensors(mapping, rules);
    plan.drops = std::move(mapping.drops);
  });
  for (const std::string& pattern : rules.unused()) {
    model.warnings.push_back(fmt::format("--quant-for '{}' fits no tensor", printable(pattern, 80)));
  }

  plan.family = model.family->name;
  plan.arch = model.arch;
  const cmf::ChatBundle chat = chat_bundle(*checkpoint, model, model.arch.vocab_size, model.notes, model.warnings);
  plan.contents.header = header(plan, model, rules.general(), write_chat_bundle(chat));
  plan.contents.tokenizer_json = checkpoint->tokenizer_json;
  if (options.shard_max_gb > 0) plan.shard_max_bytes = static_cast<uint64_t>(options.shard_max_gb * 1e9);

  plan.share_budget = !options.vbit_flat;
  plan.mean_bits = options.mean_bits;
  if (!options.route_stats.empty()) plan.route_counts = read_route_stats(options.route_stats, files);

  append(plan.notes, checkpoint->notes);
  append(plan.notes, model.notes);
  append(plan.warnings, checkpoint->warnings);
  append(plan.warnings, source.warnings());
  append(plan.warnings, model.warnings);
  // What a reader will refuse is refused now.
  cmf::parse_arch(plan.contents.header["arch"], "the planned header");
  return plan;
}

}  // namespace cortiq::convert
