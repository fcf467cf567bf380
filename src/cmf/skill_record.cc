#include "cmf/skill_record.h"

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/hash64.h"
#include "cmf/base64.h"
#include "cmf/lossless_json.h"

namespace cortiq::cmf {
namespace {

// Halves of a base64 text; nothing if the text is none or a value is not finite.
std::optional<std::vector<float>> decode_halves(const std::string& text) {
  const auto bytes = decode_base64(text);
  if (!bytes || bytes->size() % 2 != 0) return std::nullopt;
  std::vector<float> out(bytes->size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes->data() + 2 * i, 2);
    out[i] = f16_to_f32(half);
    if (!std::isfinite(out[i])) return std::nullopt;
  }
  return out;
}

std::string why_unusable(const Selection& selection, const Arch& arch, bool decoded) {
  if (selection.metric != "mse" && selection.metric != "mse_unit") {
    return fmt::format("unknown metric '{}'", printable(selection.metric, 40));
  }
  if (!decoded) return "mean or basis is not base64 of finite halves";
  if (selection.mean.size() != arch.hidden_size) {
    return fmt::format("mean has {} values for a hidden size of {}", selection.mean.size(), arch.hidden_size);
  }
  if (selection.basis.size() != checked_multiply(selection.rank, arch.hidden_size, "basis")) {
    return fmt::format("basis has {} values, rank {} needs {}", selection.basis.size(), selection.rank,
                       selection.rank * arch.hidden_size);
  }
  if (selection.phi_layer >= arch.num_layers) {
    return fmt::format("phi_layer {} of a model with {} layers", selection.phi_layer, arch.num_layers);
  }
  if (!selection.prompt.empty() && selection.prompt != "chat") {
    return fmt::format("unknown prompt form '{}'", printable(selection.prompt, 40));
  }
  return "";
}

Selection parse_selection(const Fields& in, const Arch& arch) {
  Selection out;
  out.metric = in.text("metric");
  out.phi_layer = in.integer("phi_layer");
  auto mean = decode_halves(in.text("mean"));
  auto basis = decode_halves(in.text("basis"));
  // Row 45: rank was not always written; the basis then says it.
  out.rank = in.maybe_integer("rank", uint64_t{1} << 32)
                 .value_or(basis && arch.hidden_size ? basis->size() / arch.hidden_size : 0);
  out.prompt = in.maybe_text("prompt").value_or("");
  const bool decoded = mean && basis;
  if (mean) out.mean = std::move(*mean);
  if (basis) out.basis = std::move(*basis);
  out.unusable = why_unusable(out, arch, decoded);
  return out;
}

}  // namespace

std::string encode_halves(std::span<const float> values) {
  std::vector<uint8_t> bytes;
  bytes.reserve(2 * values.size());
  for (const float value : values) {
    const uint16_t half = f32_to_f16(value);
    bytes.push_back(static_cast<uint8_t>(half));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  return encode_base64(bytes);
}

SkillRecord parse_skill_record(const Fields& in, const Arch& arch) {
  SkillRecord out;
  out.id = in.text("id");
  if (out.id.empty() || out.id.size() > kMaxSkillId)
    in.wrong("id", fmt::format("must have 1 to {} bytes", kMaxSkillId));
  out.name = in.maybe_text("name").value_or("");
  out.layers = in.integers("layers");
  out.input_mask_task = in.maybe_text("input_mask_task").value_or("");
  out.base_dir_hash = in.maybe_text("base_dir_hash").value_or("");
  if (in.find_set("base_dir_hash"))
    parse_hex64(out.base_dir_hash, fmt::format("{}: {}.base_dir_hash", in.what(), in.path()));
  out.base_arch = in.maybe_text("base_arch").value_or("");
  out.task = in.maybe_text("task").value_or("");
  if (const auto selection = in.maybe_object("selection")) out.selection = parse_selection(*selection, arch);
  out.json = write_json(in.json());
  return out;
}

}  // namespace cortiq::cmf
