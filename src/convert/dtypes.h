#pragma once
#include <string_view>
#include <vector>

#include "convert/convert.h"

namespace cortiq::convert {

/// True if a glob (* any run, ? one character, [a-z], [!a-z]) fits the whole text. Linear in pattern × text at worst.
bool glob(std::string_view pattern, std::string_view text) noexcept;

/// Which dtype each tensor gets: --quant and --quant-for, what shapes allow, and what is never quantised.
class DtypeRules {
 public:
  explicit DtypeRules(const ConvertOptions& options);

  const codec::Quant& general() const noexcept { return general_; }

  /// Fills dtype, encode, demanded, nbytes and (in front of what is there) note of a tensor with name, shape and
  /// recipe.
  void apply(PlannedTensor& tensor);

  /// True if a pattern fits the name.
  bool named(std::string_view name) const noexcept;

  /// Patterns that no tensor fitted so far.
  std::vector<std::string> unused() const;

 private:
  struct Rule {
    std::string pattern;
    codec::Quant quant;
    bool used = false;
  };
  static bool fits(const Rule& rule, std::string_view name) noexcept;

  codec::Quant general_;
  std::vector<Rule> rules_;
  codec::EncodeOptions encode_;
};

/// Names whose tensors are never quantised (decisions 33): routers, shared-expert gates, in_proj_a/b, g_proj.
bool kept_in_float(std::string_view name) noexcept;

}  // namespace cortiq::convert
