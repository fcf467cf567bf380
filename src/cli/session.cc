#include "cli/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "base/file_system.h"

namespace cortiq::cli {

void ModelFlags::declare(Flags& flags) {
  flags.positional("file", path, "CMF file, or any shard of a set")
      .flag("--exact", exact, "f32 from decoded weights throughout, f32 key/value cache")
      .option("--kv", kv, "key/value cache: f16 (default), f32 or q8")
      .option("--load", load, "mmap (default), or huge: a private copy in huge pages, up to a fifth faster to decode")
      .option("--context", context, "upper limit of positions (default: the model's)")
      .option("--skill", skill, "ID, none (default) or auto")
      .option("--task", task, "task mask by name; none: dense (default: the file's default task)")
      .option("--blend", blend, "auto, or id:weight,id:weight: a soft superposition of skills")
      .option("--moe-mask", moe_mask, "expert counts: only the experts that cover --moe-cover of them")
      .option("--moe-cover", moe_cover, "share of the counts to cover (default 0.9)")
      .option("--route-stats", route_stats, "write the counts of chosen experts to this file");
}

void ModelFlags::declare_mtp(Flags& flags) {
  flags.flag("--no-mtp", no_mtp, "no drafts by the model's own head (the text is the same)")
      .option("--mtp-hidden", mtp_hidden, "state that feeds the draft head: pre or post the final norm, or auto");
}

void SamplerFlags::declare(Flags& flags) {
  flags.flag("--greedy", greedy, "always the most likely token")
      .option("--temperature", options.temperature, "default 0.7")
      .option("--top-k", top_k, "default 40; 0: off")
      .option("--top-p", options.top_p, "default 0.95; 1: off")
      .option("--min-p", options.min_p, "default 0.05; 0: off")
      .option("--repeat-penalty", options.repetition_penalty, "over prompt and output; default 1: off")
      .option("--presence-penalty", options.presence_penalty, "over the output; default 0: off")
      .option("--seed", seed, "same seed, same text (default: random)");
}

engine::SamplerOptions SamplerFlags::resolve() const {
  engine::SamplerOptions resolved = options;
  if (!(top_k >= 0 && top_k <= 1e9) || top_k != static_cast<double>(static_cast<int64_t>(top_k))) {
    fail(ErrorKind::Usage, "--top-k {}: expected a whole number from 0 on", top_k);
  }
  resolved.top_k = static_cast<int64_t>(top_k);
  resolved.seed = seed;
  if (greedy) resolved.temperature = 0;
  resolved.check();
  return resolved;
}

namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

engine::MtpChoice mtp_choice(const ModelFlags& flags) {
  if (flags.no_mtp) return engine::MtpChoice::Off;
  if (flags.mtp_hidden == "auto") return engine::MtpChoice::Auto;
  if (flags.mtp_hidden == "pre") return engine::MtpChoice::Pre;
  if (flags.mtp_hidden == "post") return engine::MtpChoice::Post;
  fail(ErrorKind::Usage, "--mtp-hidden {}: use pre, post or auto", printable(flags.mtp_hidden, 40));
}

std::optional<kernels::KvType> kv_type(const std::string& word) {
  if (word.empty()) return std::nullopt;
  if (word == "f32") return kernels::KvType::F32;
  if (word == "f16") return kernels::KvType::F16;
  if (word == "q8") return kernels::KvType::Q8;
  fail(ErrorKind::Usage, "--kv {}: use f16, f32 or q8", printable(word, 40));
}

FileSystem& files_of(const std::string& load) {
  if (load.empty() || load == "mmap") return FileSystem::real();
  if (load == "huge") return FileSystem::in_huge_pages();
  fail(ErrorKind::Usage, "--load {}: use mmap or huge", printable(load, 40));
}

double cover_of(const ModelFlags& flags) {
  double cover = flags.moe_cover.value_or(0.9);
  if (!flags.moe_cover) {
    if (const auto wish = environment("CMF_MOE_MASK_COVER")) cover = std::strtod(wish->c_str(), nullptr);
  }
  if (!(cover > 0 && cover <= 1)) fail(ErrorKind::Usage, "--moe-cover {}: expected a share above 0 and up to 1", cover);
  return cover;
}

}  // namespace

Session::Session(const ModelFlags& flags, const Common& common, bool tokenizer)
    : flags_(flags), pool_(make_pool(common.threads)) {
  const auto start = std::chrono::steady_clock::now();
  mtp_ = mtp_choice(flags);
  engine::DecoderOptions options;
  options.mode = flags.exact ? kernels::Mode::Exact : kernels::Mode::Fast;
  options.kv = kv_type(flags.kv);
  model_ = engine::Model::load(flags.path, {.context = flags.context.value_or(0), .tokenizer = tokenizer},
                               files_of(flags.load));
  decoder_ = std::make_unique<engine::Decoder>(model_, *pool_, options);
  note(model_->warnings());
  const auto mask_file = flags.moe_mask ? flags.moe_mask : environment("CMF_MOE_MASK");
  if (mask_file) {
    if (!model_->has_experts()) fail(ErrorKind::Usage, "--moe-mask: {} has no experts", flags.path);
    const Json counts = parse_json(FileSystem::real().read_all(*mask_file), *mask_file);
    experts_ = engine::admitted_by_cover(engine::parse_expert_counts(counts, *model_), cover_of(flags));
  }
  const auto stats = flags.route_stats ? flags.route_stats : environment("CMF_MOE_STATS");
  if (stats) {
    if (!model_->has_experts()) fail(ErrorKind::Usage, "--route-stats: {} has no experts", flags.path);
    counts_file_ = *stats;
    decoder_->count_experts(&counts_);
  }
  if (common.verbose && !common.json) {
    fmt::print(stderr, "threads {} (usable {}), {}\n", pool_->threads(), usable_threads(),
               flags.exact ? "exact" : "int8 activations");
  }
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Session::finish() {
  if (counts_file_.empty()) return;
  Json document = Json::object();
  for (size_t layer = 0; layer < counts_.size(); ++layer) {
    if (!counts_[layer].empty()) document[std::to_string(layer)] = counts_[layer];
  }
  write_file(FileSystem::real(), counts_file_, Bytes(document.dump() + "\n"));
}

void Session::note(const std::vector<std::string>& sentences) {
  for (const auto& one : sentences) {
    if (std::find(warnings_.begin(), warnings_.end(), one) == warnings_.end()) warnings_.push_back(one);
  }
}

std::shared_ptr<const engine::Binding> Session::binding(const engine::RoutePrompt* prompt) {
  return binding(std::nullopt, std::nullopt, std::nullopt, prompt);
}

std::string Session::remarks() const {
  std::string text = blended_;
  if (!experts_.empty()) text += std::string(text.empty() ? "" : " · ") + "experts restricted";
  return text;
}

std::shared_ptr<const engine::Binding> Session::binding(const std::optional<std::string>& skill,
                                                        const std::optional<std::string>& task,
                                                        const std::optional<std::string>& blend_wish,
                                                        const engine::RoutePrompt* prompt) {
  if (blend_wish && skill && *skill != "none") fail(ErrorKind::Usage, "blend and skill exclude each other");
  if (flags_.blend && flags_.skill != "none") fail(ErrorKind::Usage, "--blend and --skill exclude each other");
  const std::optional<std::string> mixture = blend_wish ? blend_wish : skill ? std::nullopt : flags_.blend;
  engine::BindingSpec spec;
  spec.skill = skill.value_or(flags_.skill);
  spec.task = task ? task : flags_.task;
  spec.experts = experts_;
  const bool blend = mixture.has_value();
  const bool automatic = blend ? *mixture == "auto" : spec.skill == "auto";
  if (automatic) {
    if (prompt == nullptr) fail(ErrorKind::Usage, "auto chooses by the prompt; this command needs a named skill");
    const engine::Routing routing = engine::route(*decoder_, *prompt);
    note(routing.warnings);
    if (!routing.choice)
      fail(ErrorKind::Usage, "auto: {} has no skill with a selection; see cortiq skill select", flags_.path);
    if (blend) {
      spec.blend = engine::blend_weights(routing);
    } else {
      spec.skill = *routing.choice;
    }
  } else if (blend) {
    spec.blend = engine::parse_blend(*mixture);
  }
  if (blend) spec.skill = "none";
  blended_.clear();
  for (const auto& [id, weight] : spec.blend) {
    blended_ += fmt::format("{}{}:{:.3g}", blended_.empty() ? "blend " : ",", id, weight);
  }

  std::string key = spec.skill + "\n" + spec.task.value_or("\t");
  for (const auto& [id, weight] : spec.blend) key += fmt::format("\n{}:{}", id, weight);
  auto& kept = bindings_[key];
  if (!kept) {
    kept = model_->bind(spec);
    note(kept->warnings());
  }
  return kept;
}

}  // namespace cortiq::cli
