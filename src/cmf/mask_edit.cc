#include "cmf/mask_edit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "cmf/fields.h"
#include "cmf/masks.h"

namespace cortiq::cmf {
namespace {

using Rows = std::vector<std::vector<uint8_t>>;

// {"3": [1, 2]}: calls each(row, members) after checking that the row exists and the members are below `size`.
template <class Each>
void for_rows(const Fields& in, const char* key, uint64_t rows, uint64_t size, Each each) {
  const auto object = in.maybe_object(key);
  if (!object) return;
  for (const auto& [text, list] : object->json().items()) {
    uint64_t row = 0;
    const auto end = text.data() + text.size();
    const auto got = std::from_chars(text.data(), end, row);
    if (got.ec != std::errc() || got.ptr != end || row >= rows) {
      in.wrong(key, fmt::format("'{}' is no row from 0 to {}", printable(text, 40), rows - 1));
    }
    if (!list.is_array()) in.wrong(key, fmt::format("row {} is no array", row));
    std::vector<uint64_t> members;
    for (const Json& one : list) {
      if (!one.is_number_unsigned() || one.get<uint64_t>() >= size) {
        in.wrong(key, fmt::format("row {}: {} is no number from 0 to {}", row, printable(one.dump(), 40), size - 1));
      }
      members.push_back(one.get<uint64_t>());
    }
    each(row, members);
  }
}

std::vector<uint8_t> bytes_of_hex(const Fields& in, const char* key, const std::string& text) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t byte = 0;
    const auto end = text.data() + std::min(i + 2, text.size());
    const auto got = std::from_chars(text.data() + i, end, byte, 16);
    if (got.ec != std::errc() || got.ptr != text.data() + i + 2) in.wrong(key, "is not hex");
    out.push_back(byte);
  }
  return out;
}

Mask mask_from_blob(const Fields& in, const Arch& arch) {
  const std::vector<uint8_t> blob = bytes_of_hex(in, "blob_hex", in.text("blob_hex"));
  struct Form {
    bool per_visit, experts;
  };
  std::vector<Form> fits;
  for (const bool per_visit : {false, true}) {
    if (per_visit && arch.num_loops == 1) continue;
    for (const bool experts : {false, true}) {
      if (experts && !arch.moe) continue;
      if (in.find("has_expert_fields") && in.flag_or("has_expert_fields", false) != experts) continue;
      if (mask_blob_size(arch, per_visit, experts) == blob.size()) fits.push_back({per_visit, experts});
    }
  }
  if (fits.empty()) {
    in.wrong("blob_hex", fmt::format("{} bytes fit no form of this model's mask (rows per layer: {})", blob.size(),
                                     mask_blob_size(arch, false, false)));
  }
  if (fits.size() > 1) in.wrong("blob_hex", "could be read in two ways; say has_expert_fields");
  Mask out;
  out.has_expert_fields = fits[0].experts;
  out.per_visit = fits[0].per_visit;
  read_mask_blob(out, Bytes{std::span<const uint8_t>(blob)}, arch);
  return out;
}

bool silent(const std::vector<uint8_t>& row) {
  return !row.empty() && std::none_of(row.begin(), row.end(), [](uint8_t bit) { return bit != 0; });
}

uint64_t active(const Rows& rows) {
  uint64_t out = 0;
  for (const auto& row : rows)
    out += static_cast<uint64_t>(std::count_if(row.begin(), row.end(), [](uint8_t b) { return b != 0; }));
  return out;
}
uint64_t bits(const Rows& rows) {
  return std::accumulate(rows.begin(), rows.end(), uint64_t{0},
                         [](uint64_t sum, const auto& row) { return sum + row.size(); });
}

}  // namespace

Mask open_mask(const Arch& arch, bool per_visit, bool with_experts) {
  Mask out;
  out.per_visit = per_visit && arch.num_loops > 1;
  out.has_expert_fields = with_experts;
  const uint64_t visits = arch.num_layers * (out.per_visit ? arch.num_loops : 1);
  out.ffn.assign(visits, std::vector<uint8_t>(arch.intermediate_size, 1));
  out.heads.assign(arch.num_layers, std::vector<uint8_t>(arch.num_attention_heads, 1));
  out.gates.assign(arch.num_layers, 1);
  if (with_experts) out.experts.assign(arch.num_layers, std::vector<uint8_t>(arch.moe ? arch.moe->num_experts : 0, 1));
  return out;
}

Mask mask_from_json(const Json& rows, const Arch& arch, std::string_view what) {
  const Fields in(rows, "mask", what);
  constexpr std::string_view kKeys[] = {"ffn_inactive",     "ffn_row_index",     "heads_inactive", "gates_closed",
                                        "experts_routable", "has_expert_fields", "blob_hex"};
  for (const auto& [key, value] : rows.items()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      in.wrong(key, "no key of a mask; a misspelt one would leave everything active");
    }
  }
  if (in.find("blob_hex")) return mask_from_blob(in, arch);
  const std::string index = in.maybe_text("ffn_row_index").value_or("layer");
  if (!index.starts_with("layer") && !index.starts_with("visit")) {
    in.wrong("ffn_row_index", fmt::format("'{}' is neither \"layer\" nor \"visit\"", printable(index, 40)));
  }
  const Json* experts = in.find_set("experts_routable");
  const bool with_experts = in.flag_or("has_expert_fields", experts && !experts->empty());
  if ((with_experts || (experts && !experts->empty())) && !arch.moe)
    in.wrong("experts_routable", "the model has no experts");
  Mask out = open_mask(arch, index.starts_with("visit"), with_experts);
  for_rows(in, "ffn_inactive", out.ffn.size(), arch.intermediate_size, [&](uint64_t row, const auto& members) {
    for (const uint64_t one : members) out.ffn[row][one] = 0;
  });
  for_rows(in, "heads_inactive", arch.num_layers, arch.num_attention_heads, [&](uint64_t row, const auto& members) {
    for (const uint64_t one : members) out.heads[row][one] = 0;
  });
  if (in.find_set("gates_closed")) {
    for (const uint64_t layer : in.integers("gates_closed")) {
      if (layer >= arch.num_layers) in.wrong("gates_closed", fmt::format("{} of {} layers", layer, arch.num_layers));
      out.gates[layer] = 0;
    }
  }
  if (with_experts) {
    for_rows(in, "experts_routable", arch.num_layers, arch.moe->num_experts, [&](uint64_t row, const auto& members) {
      std::fill(out.experts[row].begin(), out.experts[row].end(), uint8_t{0});
      for (const uint64_t one : members) out.experts[row][one] = 1;
    });
  }
  return out;
}

Mask mask_from_rows(const MaskRows* ffn, const MaskRows* heads, const Arch& arch, std::string_view what) {
  const auto check = [&](std::string_view area, const MaskRows& in, uint64_t rows, uint64_t other_rows, uint64_t cols) {
    if ((in.rows == rows || in.rows == other_rows) && in.cols == cols && in.values.size() == in.rows * in.cols) return;
    fail(ErrorKind::Parse, "{}: {} rows have shape [{}, {}], the model needs [{}, {}]", what, area, in.rows, in.cols,
         rows, cols);
  };
  const auto fill = [](Rows& rows, const MaskRows& in) {
    for (size_t i = 0; i < in.values.size(); ++i)
      rows[i / in.cols][i % in.cols] = in.values[i] != 0 ? uint8_t{1} : uint8_t{0};
  };
  const uint64_t layers = arch.num_layers;
  if (ffn) check("FFN", *ffn, layers, layers * arch.num_loops, arch.intermediate_size);
  if (heads) check("head", *heads, layers, layers, arch.num_attention_heads);
  Mask out = open_mask(arch, ffn && ffn->rows != layers, false);
  if (ffn) fill(out.ffn, *ffn);
  if (heads) fill(out.heads, *heads);
  return out;
}

double mask_sparsity(const Mask& mask) {
  const Rows& rows = active(mask.ffn) == bits(mask.ffn) && mask.has_expert_fields ? mask.experts : mask.ffn;
  if (bits(rows) == 0) return 0;
  const double share = 1 - static_cast<double>(active(rows)) / static_cast<double>(bits(rows));
  return std::round(share * 1e4) / 1e4;
}

std::vector<std::string> mask_warnings(const Mask& mask) {
  std::vector<std::string> out;
  const auto all = [](const Rows& rows) { return active(rows) == bits(rows); };
  if (all(mask.ffn) && all(mask.heads) && all({mask.gates}) && all(mask.experts)) {
    out.push_back(fmt::format("mask '{}' leaves everything active", printable(mask.name, 60)));
  }
  for (size_t layer = 0; layer < mask.gates.size(); ++layer) {
    if (mask.gates[layer] == 0) continue;
    if (silent(mask.heads[layer]))
      out.push_back(fmt::format("layer {}: no head is active: its attention says nothing", layer));
    if (mask.has_expert_fields && silent(mask.experts[layer])) {
      out.push_back(fmt::format("layer {}: no expert is routable: a run under this mask will be refused", layer));
    }
  }
  for (size_t row = 0; row < mask.ffn.size(); ++row) {
    if (mask.gates[row % mask.gates.size()] != 0 && silent(mask.ffn[row])) {
      out.push_back(fmt::format("{} {}: no FFN neuron is active", mask.per_visit ? "visit" : "layer", row));
    }
  }
  return out;
}

}  // namespace cortiq::cmf
