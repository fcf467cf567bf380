#include <algorithm>
#include <tuple>

#include "cmf/tensor_name.h"
#include "cmf/writer.h"

namespace cortiq::cmf {
namespace {

// What is compared, in this order. Experts stand behind the rest of their layer, all gates first, then ups, then downs,
// so that the bank of one role is one region of the file (§2.2).
struct Place {
  int group = 5;
  uint64_t layer = 0;
  bool expert = false;
  size_t role = 0;
  std::string_view rest;
  uint64_t expert_no = 0;
  auto key() const { return std::tie(group, layer, expert, role, rest, expert_no); }
};

Place place_of(std::string_view name) {
  constexpr std::string_view kFirst[] = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  Place out;
  out.rest = name;
  if (const auto at = std::find(std::begin(kFirst), std::end(kFirst), name); at != std::end(kFirst)) {
    out.group = static_cast<int>(at - std::begin(kFirst));
    return out;
  }
  if (name.starts_with("model.mtp.")) {
    out.group = 4;
    return out;
  }
  const auto layer = layer_name(name);
  if (!layer) return out;
  out.group = 3;
  out.layer = layer->number;
  out.rest = layer->rest;
  if (const auto expert = expert_name(layer->rest)) {
    constexpr std::string_view kRoles[] = {"gate_proj.", "up_proj.", "down_proj."};
    out.expert = true;
    out.expert_no = expert->number;
    out.rest = expert->rest;
    out.role = static_cast<size_t>(
        std::find_if(std::begin(kRoles), std::end(kRoles), [&](auto role) { return out.rest.starts_with(role); }) -
        std::begin(kRoles));
  }
  return out;
}

}  // namespace

bool canonical_less(std::string_view a, std::string_view b) { return place_of(a).key() < place_of(b).key(); }

}  // namespace cortiq::cmf
