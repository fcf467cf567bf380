#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/common.h"
#include "cmf/file.h"
#include "cmf/lossless_json.h"
#include "convert/dtypes.h"

namespace cortiq::cli {
namespace {

const std::vector<std::pair<uint32_t, const char*>> kFeatureNames = {{cmf::kTensorDir, "TENSOR_DIR"},
                                                                     {cmf::kBinaryMasks, "BINARY_MASKS"},
                                                                     {cmf::kQuant2f, "QUANT_2F"},
                                                                     {cmf::kLoopMasks, "LOOP_MASKS"},
                                                                     {cmf::kSkillFile, "SKILL_FILE"}};

struct Amount {
  uint64_t tensors = 0, bytes = 0;
};

// A header key as the file has it, or null.
Json header_key(const cmf::Header& header, const char* key) {
  const auto found = header.json->find(key);
  return found == header.json->end() ? Json(nullptr) : *found;
}

uint64_t kept(const std::vector<uint8_t>& row) { return static_cast<uint64_t>(std::count(row.begin(), row.end(), 1)); }

Json mask_json(const cmf::Mask& mask) {
  Json active = Json::array(), heads = Json::array();
  for (const auto& row : mask.ffn) active.push_back(kept(row));
  for (const auto& row : mask.heads) heads.push_back(kept(row));
  Json one = {{"task_id", mask.task_id},
              {"name", mask.name},
              {"description", mask.description.empty() ? Json(nullptr) : Json(mask.description)},
              {"priority", mask.priority},
              {"sparsity", mask.sparsity},
              {"per_visit", mask.per_visit},
              {"has_expert_fields", mask.has_expert_fields},
              {"ffn_active", active},
              {"heads_active", heads},
              {"gates_open", kept(mask.gates)}};
  one["quality"] = mask.quality.empty() ? Json(nullptr) : cmf::parse_lossless_json(mask.quality, "quality");
  return one;
}

Json skill_json(const cmf::FileSet& set, const cmf::SkillRecord& skill) {
  uint64_t tensors = 0, bytes = 0;
  const std::string prefix = "skill." + skill.id + ".";
  for (const auto& tensor : set.tensors()) {
    if (!tensor.name.starts_with(prefix)) continue;
    ++tensors;
    bytes += tensor.nbytes;
  }
  Json one = {{"id", skill.id}, {"name", skill.name}, {"layers", skill.layers}, {"tensors", tensors}, {"bytes", bytes}};
  if (skill.selection) {
    one["selection"] = {{"metric", skill.selection->metric},
                        {"phi_layer", skill.selection->phi_layer},
                        {"rank", skill.selection->rank},
                        {"prompt", skill.selection->prompt},
                        {"usable", skill.selection->unusable.empty()}};
    if (!skill.selection->unusable.empty()) one["selection"]["why_not"] = skill.selection->unusable;
  } else {
    one["selection"] = nullptr;
  }
  const Json record = cmf::parse_lossless_json(skill.json, "skills");
  for (const char* key : {"quality", "input_mask_task", "base_dir_hash", "base_arch", "task", "provenance"}) {
    one[key] = record.contains(key) ? record[key] : Json(nullptr);
  }
  return one;
}

Json tokenizer_json(const cmf::File& file) {
  const auto& chat = file.header().chat;
  Json one = {{"embedded", !file.tokenizer_json().empty()},
              {"bytes", file.tokenizer_json().size()},
              {"chat_template", chat && chat->chat_template.has_value()}};
  one["eos_token_ids"] = chat ? Json(chat->eos_token_ids) : Json::array();
  one["bos_token_id"] = chat && chat->bos_token_id ? Json(*chat->bos_token_id) : Json(nullptr);
  one["pad_token_id"] = chat && chat->pad_token_id ? Json(*chat->pad_token_id) : Json(nullptr);
  return one;
}

void print_human(const Json& d, const std::vector<const cmf::Tensor*>& listed) {
  const Style style = style_of(stdout);
  const auto line = [&](const char* label, const std::string& text) {
    fmt::print("{}{:<14}{}{}\n", style.dim, label, style.reset, text);
  };
  const Json& arch = d["arch"];
  const auto number = [&](const char* key) { return with_commas(arch[key].get<uint64_t>()); };
  fmt::print("{}{}{}  {}, CMF v{}\n", style.bold, d["file"].get<std::string>(), style.reset,
             human_bytes(d["bytes"].get<uint64_t>()), d["version"].get<int>());
  line("architecture", printable(arch["arch_name"].get<std::string>()));
  std::map<std::string, size_t> kinds;
  for (const Json& kind : arch["layer_types"]) ++kinds[kind.get<std::string>()];
  std::string mix;
  for (const auto& [kind, count] : kinds) mix += fmt::format("{}{} {}", mix.empty() ? "" : ", ", count, kind);
  line("layers", fmt::format("{} ({})", number("num_layers"), mix));
  line("hidden",
       fmt::format("{}, FFN {}, {} heads of {}, {} key/value", number("hidden_size"), number("intermediate_size"),
                   number("num_attention_heads"), number("head_dim"), number("num_kv_heads")));
  if (!arch["moe"].is_null()) {
    line("experts", fmt::format("{}, {} a token", arch["moe"]["num_experts"].dump(), arch["moe"]["top_k"].dump()));
  }
  line("context", number("max_position_embeddings"));
  line("vocabulary", number("vocab_size"));
  line("parameters", with_commas(d["parameters"].get<uint64_t>()));
  line("tokenizer",
       d["tokenizer"]["embedded"].get<bool>()
           ? (d["tokenizer"]["chat_template"].get<bool>() ? "inside, with chat template" : "inside, no chat template")
           : "none");
  if (!d["shard"].is_null())
    line("shard", fmt::format("{} of {}", d["shard"]["no"].dump(), d["shard"]["count"].dump()));
  if (!d["provenance"].is_null()) line("provenance", printable(d["provenance"].dump(), 160));
  fmt::print("\n");
  Table dtypes({"dtype", "tensors", "bytes"});
  for (const auto& [name, amount] : d["dtypes"].items()) {
    dtypes.add({name, with_commas(amount["tensors"].get<uint64_t>()), with_commas(amount["bytes"].get<uint64_t>())});
  }
  dtypes.print(stdout);
  if (!d["masks"].empty()) {
    fmt::print("\n");
    Table masks({"mask", "priority", "sparsity", "quality"});
    for (const Json& one : d["masks"]) {
      masks.add({printable(one["name"].get<std::string>()), one["priority"].get<std::string>(),
                 fmt::format("{:.3f}", one["sparsity"].get<double>()),
                 one["quality"].is_null() ? "not measured" : printable(one["quality"].dump(), 60)});
    }
    masks.print(stdout);
  }
  if (!d["skills"].empty()) {
    fmt::print("\n");
    Table skills({"skill", "tensors", "bytes", "routing", "quality"});
    for (const Json& one : d["skills"]) {
      skills.add({printable(one["id"].get<std::string>()), one["tensors"].dump(),
                  with_commas(one["bytes"].get<uint64_t>()),
                  one["selection"].is_null() ? "no"
                                             : fmt::format("layer {}, rank {}", one["selection"]["phi_layer"].dump(),
                                                           one["selection"]["rank"].dump()),
                  one["quality"].is_null() ? "not measured" : printable(one["quality"].dump(), 60)});
    }
    skills.print(stdout);
  }
  if (!listed.empty()) {
    fmt::print("\n");
    Table table({"tensor", "dtype", "shape", "bytes"});
    for (const auto* one : listed) {
      table.add(
          {printable(one->name), std::string(codec::name(one->dtype)), one->shape.text(), with_commas(one->nbytes)});
    }
    table.print(stdout);
  }
}

}  // namespace

int run_info(const Arguments& arguments) {
  Common common;
  std::string path;
  std::optional<std::string> pattern;
  bool whole_set = false;
  Flags flags(
      "info", "What a file holds",
      {"cortiq info model.cmf", "cortiq info model.cmf --tensors '*layers.0.*'", "cortiq info model.cmf --json"});
  flags.positional("file", path, "CMF file, or one shard alone")
      .optional_value("--tensors", pattern, "*", "list the tensors whose names fit the glob")
      .flag("--set", whole_set, "all shards of the set");
  common.declare_json(flags);
  if (!flags.parse(arguments)) return 0;

  const auto set = whole_set ? cmf::FileSet::open(path) : cmf::FileSet::single(cmf::File::open(path));
  const cmf::File& file = set->first();
  const cmf::Header& header = file.header();
  std::map<std::string, Amount> dtypes;
  uint64_t parameters = 0, bytes = 0;
  std::vector<const cmf::Tensor*> listed;
  for (const auto& part : set->files()) bytes += part->size();
  for (const auto& tensor : set->tensors()) {
    Amount& amount = dtypes[std::string(codec::name(tensor.dtype))];
    ++amount.tensors;
    amount.bytes += tensor.nbytes;
    if (!tensor.name.starts_with("skill.")) parameters += tensor.shape.elements();
    if (pattern && convert::glob(*pattern, tensor.name)) listed.push_back(&tensor);
  }
  Json document = {{"file", path}, {"bytes", bytes}, {"version", file.envelope().version}};
  document["required_features"] = Json::array();
  for (const auto& [bit, feature] : kFeatureNames) {
    if (file.envelope().features & bit) document["required_features"].push_back(feature);
  }
  document["arch"] = cmf::resolved_arch(header.arch);
  document["quant_type"] = header.quant_type;
  document["parameters"] = parameters;
  document["dtypes"] = Json::object();
  for (const auto& [name, amount] : dtypes)
    document["dtypes"][name] = {{"tensors", amount.tensors}, {"bytes", amount.bytes}};
  document["default_task"] = file.masks().masks.empty() ? Json(nullptr) : Json(file.masks().default_task);
  document["masks"] = Json::array();
  for (const auto& mask : file.masks().masks) document["masks"].push_back(mask_json(mask));
  document["skills"] = Json::array();
  for (const auto& skill : header.skills) document["skills"].push_back(skill_json(*set, skill));
  document["shard"] = header.shard ? Json({{"no", header.shard->no}, {"count", header.shard->count}}) : Json(nullptr);
  document["provenance"] = header_key(header, "provenance");
  document["tokenizer"] = tokenizer_json(file);
  document["sparse_index"] = file.envelope().index.length == 0
                                 ? Json(nullptr)
                                 : Json("deprecated; " + std::to_string(file.envelope().index.length) + " bytes");
  if (pattern) {
    document["tensors"] = Json::array();
    for (const auto* one : listed) {
      document["tensors"].push_back({{"name", one->name},
                                     {"dtype", codec::name(one->dtype)},
                                     {"shape", one->shape.text()},
                                     {"nbytes", one->nbytes}});
    }
  }
  std::vector<std::string> warnings;
  if (!header.arch.norm_style_given) warnings.push_back("arch.norm_style is missing; 'qwen' is assumed");
  if (common.json) {
    add_warnings(document, warnings);
    fmt::print("{}\n", cmf::write_json(document));
    return 0;
  }
  for (const auto& one : warnings) warn(one);
  print_human(document, listed);
  return 0;
}

}  // namespace cortiq::cli
