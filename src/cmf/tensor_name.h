#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

// How the names of a layer's tensors are built (§3.2): "model.layers.12.mlp.experts.7.up_proj.weight".
namespace cortiq::cmf {

/// A number and what follows it behind a dot.
struct NumberedName {
  uint64_t number;
  std::string_view rest;
};

/// The parts of "{prefix}{number}.{rest}"; nothing for any other text.
inline std::optional<NumberedName> numbered_name(std::string_view name, std::string_view prefix) noexcept {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const auto digits = static_cast<size_t>(end - name.data());
  if (error != std::errc() || digits == name.size() || name[digits] != '.') return std::nullopt;
  return NumberedName{number, name.substr(digits + 1)};
}

/// "model.layers.12.mlp.up_proj.weight" → 12 and "mlp.up_proj.weight", if there are more layers than that.
inline std::optional<NumberedName> layer_name(std::string_view name, uint64_t layers = UINT64_MAX) noexcept {
  const auto found = numbered_name(name, "model.layers.");
  return found && found->number < layers ? found : std::nullopt;
}

/// What follows a layer's number: "mlp.experts.7.up_proj.weight" → 7 and "up_proj.weight".
inline std::optional<NumberedName> expert_name(std::string_view rest) noexcept {
  return numbered_name(rest, "mlp.experts.");
}

}  // namespace cortiq::cmf
