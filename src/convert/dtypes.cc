#include "convert/dtypes.h"

#include <algorithm>
#include <array>

namespace cortiq::convert {
namespace {

constexpr std::array<std::string_view, 5> kKept{"mlp.gate.weight", "shared_expert_gate.weight",
                                                "self_attn.g_proj.weight", "linear_attn.in_proj_a.weight",
                                                "linear_attn.in_proj_b.weight"};

bool is_float(codec::Dtype dtype) {
  return dtype == codec::Dtype::F32 || dtype == codec::Dtype::F16 || dtype == codec::Dtype::BF16;
}

// Matches one bracket expression at pattern[at] == '['; moves `at` behind it. A bracket without end is a plain '['.
bool bracket(std::string_view pattern, size_t& at, char c) noexcept {
  const size_t end = pattern.find(']', at + 2);
  if (end == pattern.npos) return pattern[at++] == c;
  size_t i = at + 1;
  const bool negated = pattern[i] == '!' || pattern[i] == '^';
  if (negated) ++i;
  bool found = false;
  for (; i < end; ++i) {
    if (i + 2 < end && pattern[i + 1] == '-') {
      found |= pattern[i] <= c && c <= pattern[i + 2];
      i += 2;
    } else {
      found |= pattern[i] == c;
    }
  }
  at = end + 1;
  return found != negated;
}

}  // namespace

bool glob(std::string_view pattern, std::string_view text) noexcept {
  size_t p = 0, t = 0, star = pattern.npos, star_text = 0;
  while (t < text.size()) {
    size_t next = p;
    bool fits = false;
    if (p < pattern.size()) {
      if (pattern[p] == '*') {
        star = p++;
        star_text = t;
        continue;
      }
      if (pattern[p] == '[') {
        fits = bracket(pattern, next, text[t]);
      } else {
        fits = pattern[p] == '?' || pattern[p] == text[t];
        ++next;
      }
    }
    if (fits) {
      p = next;
      ++t;
    } else if (star != pattern.npos) {  // the last star takes one more character
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool kept_in_float(std::string_view name) noexcept {
  return std::any_of(kKept.begin(), kKept.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

DtypeRules::DtypeRules(const ConvertOptions& options) : general_(codec::parse_quant(options.quant)) {
  for (const QuantFor& one : options.quant_for) rules_.push_back({one.pattern, codec::parse_quant(one.quant)});
  encode_.mean_bits = options.mean_bits;
  encode_.keep = static_cast<float>(options.keep);
}

bool DtypeRules::fits(const Rule& rule, std::string_view name) noexcept {
  if (glob(rule.pattern, name)) return true;
  const size_t dot = name.rfind('.');  // "lm_head" means "lm_head.weight" too
  return dot != name.npos && glob(rule.pattern, name.substr(0, dot));
}

bool DtypeRules::named(std::string_view name) const noexcept {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) { return fits(rule, name); });
}

void DtypeRules::apply(PlannedTensor& tensor) {
  codec::Quant wish = general_;
  bool by_name = false;
  for (Rule& rule : rules_) {
    if (!fits(rule, tensor.name)) continue;
    rule.used = by_name = true;
    wish = rule.quant;
  }
  tensor.encode = encode_;
  tensor.encode.error_diffusion = wish.error_diffusion;

  std::string reason;
  const bool matrix = tensor.shape.rank == 2 && tensor.shape.elements() >= 32;
  if (matrix && !kept_in_float(tensor.name)) {
    codec::Choice choice = codec::choose(wish, tensor.shape);
    tensor.dtype = choice.dtype;
    reason = std::move(choice.reason);
    tensor.demanded = by_name && choice.dtype == wish.dtype;
  } else {
    // What is not quantised keeps all its precision where the whole file does, and is f16 otherwise (decisions 33).
    const bool exact = wish.dtype == codec::Dtype::F32 ||
                       (wish.dtype == codec::Dtype::BF16 && tensor.recipe.source->holds(*tensor.recipe.tensor, "BF16"));
    tensor.dtype = exact ? wish.dtype : codec::Dtype::F16;
    tensor.demanded = true;
    if (tensor.dtype != wish.dtype) reason = matrix ? "never quantised" : codec::choose(wish, tensor.shape).reason;
    if (is_float(wish.dtype)) reason.clear();
  }
  tensor.nbytes = codec::of(tensor.dtype).nbytes(tensor.shape);
  if (!reason.empty()) tensor.note = reason + (tensor.note.empty() ? "" : "; " + tensor.note);
}

std::vector<std::string> DtypeRules::unused() const {
  std::vector<std::string> out;
  for (const Rule& rule : rules_) {
    if (!rule.used) out.push_back(rule.pattern);
  }
  return out;
}

}  // namespace cortiq::convert
