#include "convert/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace cortiq::convert {
namespace {

// Where the keys of one rotary profile stand: rope_scaling, rope_parameters, or a part of it; absent: no scaling.
using Block = std::optional<Config>;

class Resolver {
 public:
  Resolver(const Config& config, const RopeRules& rules, cmf::Arch& arch, std::vector<std::string>& notes,
           std::vector<std::string>& warnings)
      : config_(config), rules_(rules), arch_(arch), notes_(notes), warnings_(warnings) {}

  void run() {
    const auto [global, local] = blocks();
    arch_.rope_theta = agreed(global, "rope_theta", 10000);
    if (arch_.rope_theta <= 0) config_.malformed("rope_theta", "a positive number");
    arch_.partial_rotary_factor = agreed(global, "partial_rotary_factor", 1);
    width_ = rotary_width(arch_.partial_rotary_factor);
    local_profile(local);
    if (global) scale(*global);
    if (rules_.unrotated_full_layers > 0) {
      arch_.rope_local_base_freq = arch_.rope_theta;
      arch_.rope_freq_factors.assign(width_ / 2, rules_.unrotated_full_layers);
    }
  }

 private:
  // The blocks of full and of sliding layers.
  std::pair<Block, Block> blocks() const {
    Block scaling = config_.inner("rope_scaling"), parameters = config_.inner("rope_parameters");
    if (scaling && scaling->object().empty()) scaling.reset();
    Block local;
    if (parameters && (parameters->has("full_attention") || parameters->has("sliding_attention"))) {
      local = parameters->inner("sliding_attention");
      parameters = parameters->inner("full_attention");
    }
    if (!scaling) return {parameters, local};
    if (parameters && kind_of(*parameters) != kind_of(*scaling)) {
      config_.refuse("rope_scaling", "'rope_parameters' says something else; remove one of them");
    }
    return {scaling, local};
  }

  // A number that may stand in the block, beside it, or in both if they agree.
  double agreed(const Block& block, std::string_view key, double fallback) const {
    if (!block || !block->maybe_number(key)) return config_.number(key, fallback);
    const double inside = block->number(key);
    if (config_.written(key) && config_.has(key) && inside != config_.number(key)) {
      block->refuse(key, fmt::format("{} beside it", config_.shown(key)));
    }
    return inside;
  }

  uint64_t rotary_width(double factor) const {
    const auto width = static_cast<uint64_t>(static_cast<double>(arch_.head_dim) * factor);
    if (factor <= 0 || factor > 1 || width < 2 || width % 2 != 0) {
      fail(
          ErrorKind::Parse,
          "{}head_dim {} times partial_rotary_factor {} gives a rotary width of {}: an even one of at least 2 expected",
          config_.where(), arch_.head_dim, factor, width);
    }
    return width;
  }

  static std::string kind_of(const Config& block) {
    const auto now = block.text("rope_type"), old = block.text("type");
    if (now && old && *now != *old) block.refuse("type", fmt::format("'rope_type' beside it says '{}'", *now));
    if (!now && !old && block.has("factor")) block.malformed("rope_type", "a name, since there is a factor");
    return now ? *now : old ? *old : "default";
  }

  void local_profile(const Block& local) {
    const bool slides = std::find(arch_.layer_types.begin(), arch_.layer_types.end(),
                                  cmf::LayerType::SlidingAttention) != arch_.layer_types.end();
    if (local) {
      if (const std::string kind = kind_of(*local); kind != "default") {
        local->refuse("rope_type", fmt::format("sliding layers can only have an unscaled table, not '{}'", kind));
      }
    }
    if (!slides || !(local || rules_.two_profiles)) return;
    const double theta = local ? local->number("rope_theta", arch_.rope_theta)
                               : config_.number("rope_local_base_freq", arch_.rope_theta);
    if (theta <= 0) config_.malformed("rope_local_base_freq", "a positive number");
    arch_.rope_local_base_freq = theta;
    if (local && local->has("partial_rotary_factor")) {
      arch_.local_partial_rotary_factor = local->number("partial_rotary_factor");
      rotary_width(*arch_.local_partial_rotary_factor);
    }
  }

  void scale(const Config& block) {
    const std::string kind = kind_of(block);
    // The query factor 1 + beta·ln(1 + floor(p/N)) is 1 below N; beyond it the header has no field (§5.5).
    if (block.number("llama_4_scaling_beta", 0) != 0 &&
        block.count("original_max_position_embeddings") < arch_.max_position_embeddings) {
      block.refuse("llama_4_scaling_beta",
                   "queries that are scaled by their position have no field in the header; with "
                   "max_position_embeddings set to original_max_position_embeddings it has no effect");
    }
    if (block.has("mrope_section") && !rules_.sections) {
      block.refuse("mrope_section", "multi-axis rotary positions (mrope) are not supported for this family");
    }
    if (rules_.sections && (kind == "default" || kind == "mrope")) {
      if (block.has("mrope_section"))
        notes_.push_back("mrope_section: for text all axes are equal, plain rotary positions are written");
      return;
    }
    const auto is_longrope = [&](std::string_view name) { return name == kind; };
    if (kind == "default") return;
    if (std::any_of(rules_.longrope_names.begin(), rules_.longrope_names.end(), is_longrope)) return longrope(block);
    if (kind == "linear") return linear(block);
    if (kind == "llama3") return llama3(block);
    if (kind == "yarn") return yarn(block);
    fail(ErrorKind::Unsupported, "{}rope_type is '{}': only default, linear, llama3, yarn and longrope can be written",
         block.where(), printable(kind, 60));
  }

  double positive(const Config& block, std::string_view key) const {
    if (!block.has(key)) block.malformed(key, "a positive number");
    const double value = block.number(key);
    if (value <= 0) block.malformed(key, "a positive number");
    return value;
  }

  void linear(const Config& block) {
    const double factor = positive(block, "factor");
    if (factor != 1) arch_.rope_freq_factors.assign(width_ / 2, factor);
  }

  double base_frequency(uint64_t i) const {
    return std::pow(arch_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(width_));
  }

  void llama3(const Config& block) {
    const double factor = positive(block, "factor"), low = positive(block, "low_freq_factor"),
                 high = positive(block, "high_freq_factor"),
                 original = positive(block, "original_max_position_embeddings");
    if (high <= low) block.malformed("high_freq_factor", "a number above low_freq_factor");
    for (uint64_t i = 0; i < width_ / 2; ++i) {
      const double frequency = base_frequency(i);
      const double turns = original * frequency / (2 * std::numbers::pi);  // inside the original window
      const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      arch_.rope_freq_factors.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }

  uint64_t original_length(const Config& block) {
    if (rules_.original_at_top) return config_.count("original_max_position_embeddings");
    if (block.has("original_max_position_embeddings")) return block.count("original_max_position_embeddings");
    if (config_.has("original_max_position_embeddings")) return config_.count("original_max_position_embeddings");
    warnings_.push_back(
        fmt::format("{}original_max_position_embeddings is missing: max_position_embeddings ({}) is taken",
                    block.where(), arch_.max_position_embeddings));
    return arch_.max_position_embeddings;
  }

  // ENGINE_FACTS §5.4. The multiplier is resolved here; readers take it as it is.
  void yarn(const Config& block) {
    const double factor = positive(block, "factor");
    for (const std::string_view key : {"attn_factor", "extrapolation_factor"}) {
      if (block.number(key, 1) != 1) block.refuse(key, "only 1 can be written");
    }
    const uint64_t original = original_length(block);
    cmf::Yarn out;
    out.factor = factor;
    out.original_max_position_embeddings = original;
    out.beta_fast = or_default(block, "beta_fast", 32);
    out.beta_slow = or_default(block, "beta_slow", 1);
    const auto growth = [factor](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
    const double mscale = block.number("mscale", 0), all_dim = block.number("mscale_all_dim", 0);
    out.attention_factor = block.has("attention_factor") ? block.number("attention_factor")
                           : mscale != 0 && all_dim != 0 ? growth(mscale) / growth(all_dim)
                                                         : growth(1);
    const bool truncate = block.flag("truncate", true);
    const Ramp ramp = yarn_ramp(out, truncate);
    // The header's yarn means rounded edges, and other readers clamp the upper one to width/2 - 1 and the span to 1
    // (§21 row 22). Anything else is carried as divisors, which all readers compute alike.
    if (!truncate || ramp.high > static_cast<double>(width_ / 2 - 1) || ramp.high - ramp.low < 1) {
      for (uint64_t i = 0; i < width_ / 2; ++i) {
        const double t = std::clamp((static_cast<double>(i) - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
        arch_.rope_freq_factors.push_back(1 / (t / factor + 1 - t));
      }
      out.factor = 1;
      out.beta_fast = 32;
      out.beta_slow = 1;
    }
    arch_.yarn = out;
  }

  struct Ramp {
    double low, high;
  };
  Ramp yarn_ramp(const cmf::Yarn& yarn, bool truncate) const {
    const double width = static_cast<double>(width_);
    const auto edge = [&](double turns) {
      return width *
             std::log(static_cast<double>(yarn.original_max_position_embeddings) / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(arch_.rope_theta));
    };
    double low = edge(yarn.beta_fast), high = edge(yarn.beta_slow);
    if (truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, width - 1);
    if (low == high) high += 0.001;
    return {low, high};
  }

  // Null and 0 mean the default too.
  static double or_default(const Config& block, std::string_view key, double fallback) {
    const double value = block.number(key, 0);
    return value == 0 ? fallback : value;
  }

  // §5.5: the header holds the table of the original length; the context ends there (decisions 20).
  void longrope(const Config& block) {
    const std::vector<double> factors = block.numbers("short_factor"), beyond = block.numbers("long_factor");
    for (const auto& [key, list] :
         {std::pair<std::string_view, const std::vector<double>&>{"short_factor", factors}, {"long_factor", beyond}}) {
      if (list.size() != width_ / 2) {
        fail(ErrorKind::Parse, "{}{} has {} entries, a rotary width of {} needs {}", block.where(), key, list.size(),
             width_, width_ / 2);
      }
      if (std::any_of(list.begin(), list.end(), [](double value) { return value <= 0; })) {
        block.malformed(key, "positive numbers");
      }
    }
    for (const std::string_view key : {"short_mscale", "long_mscale"}) {
      if (block.has(key)) block.refuse(key, "two multipliers have no field in the header");
    }
    const uint64_t original = original_length(block);
    const double length = static_cast<double>(original);
    const double growth = block.number("factor", static_cast<double>(arch_.max_position_embeddings) / length);
    const double multiplier = block.has("attention_factor") ? block.number("attention_factor")
                              : growth <= 1                 ? 1
                                                            : std::sqrt(1 + std::log(growth) / std::log(length));
    const bool plain = std::all_of(factors.begin(), factors.end(), [](double value) { return value == 1; });
    if (!plain) arch_.rope_freq_factors = factors;
    if (multiplier != 1) {
      // A factor of 1 leaves the frequencies alone: this block only carries the multiplier.
      cmf::Yarn carrier;
      carrier.original_max_position_embeddings = original;
      carrier.attention_factor = multiplier;
      arch_.yarn = carrier;
    }
    if (arch_.max_position_embeddings > original && beyond != factors) {
      warnings_.push_back(
          fmt::format("longrope: the header can only hold the table of the original length: max_position_embeddings is "
                      "{} instead of {}",
                      original, arch_.max_position_embeddings));
      arch_.max_position_embeddings = original;
    }
  }

  const Config& config_;
  const RopeRules& rules_;
  cmf::Arch& arch_;
  std::vector<std::string>& notes_;
  std::vector<std::string>& warnings_;
  uint64_t width_ = 0;
};

}  // namespace

void resolve_rope(const Config& config, const RopeRules& rules, cmf::Arch& arch, std::vector<std::string>& notes,
                  std::vector<std::string>& warnings) {
  Resolver(config, rules, arch, notes, warnings).run();
}

}  // namespace cortiq::convert
