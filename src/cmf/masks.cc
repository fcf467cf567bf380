#include "cmf/masks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "cmf/fields.h"
#include "cmf/lossless_json.h"
#include "cmf/writer.h"

namespace cortiq::cmf {
namespace {

constexpr uint64_t kHeadBytes = 8;  // n_masks u32, meta_len u32
constexpr uint64_t kBlobAlignment = 8;
constexpr std::array<std::string_view, 3> kPriorities{"Fallback", "Normal", "Primary"};

uint64_t bytes_for(uint64_t bits) { return bits / 8 + (bits % 8 != 0); }

// Sizes of the areas of one blob (§5): nothing of it stands in the file.
struct BlobShape {
  uint64_t layers, visits, neurons, heads, experts;
  BlobShape(const Arch& arch, bool per_visit, bool with_experts)
      : layers(arch.num_layers),
        visits(per_visit ? checked_multiply(arch.num_layers, arch.num_loops, "mask rows") : arch.num_layers),
        neurons(arch.intermediate_size),
        heads(arch.num_attention_heads),
        experts(with_experts && arch.moe ? arch.moe->num_experts : 0) {}

  uint64_t size() const {
    const auto area = [](uint64_t rows, uint64_t bits) { return checked_multiply(rows, bytes_for(bits), "mask area"); };
    uint64_t total = checked_add(area(visits, neurons), area(layers, heads), "mask");
    total = checked_add(total, bytes_for(layers), "mask");
    return checked_add(total, area(layers, experts), "mask");
  }
};

// Bit i of a row is bit i % 8 of its byte i / 8 (§5).
class BitReader {
 public:
  explicit BitReader(Bytes blob) : blob_(blob) {}

  std::vector<uint8_t> row(uint64_t bits, bool& tail) {
    const Bytes bytes = blob_.slice(at_, bytes_for(bits), "mask row");
    at_ += bytes.size();
    std::vector<uint8_t> out(bits);
    for (uint64_t i = 0; i < bits; ++i) out[i] = bytes[i / 8] >> (i % 8) & 1;
    if (bits % 8 != 0 && bytes[bits / 8] >> (bits % 8) != 0) tail = true;
    return out;
  }
  std::vector<std::vector<uint8_t>> rows(uint64_t count, uint64_t bits, bool& tail) {
    std::vector<std::vector<uint8_t>> out(count);
    for (auto& one : out) one = row(bits, tail);
    return out;
  }

 private:
  Bytes blob_;
  uint64_t at_ = 0;
};

class BitWriter {
 public:
  explicit BitWriter(std::vector<uint8_t>& out) : out_(out) {}

  // `source` may be shorter than the row, and absent altogether: what is not said is active.
  void row(const std::vector<uint8_t>* source, uint64_t bits) {
    const size_t at = out_.size();
    out_.resize(at + bytes_for(bits));
    for (uint64_t i = 0; i < bits; ++i) {
      const bool active = !source || i >= source->size() || (*source)[i] != 0;
      if (active) out_[at + i / 8] |= static_cast<uint8_t>(1u << (i % 8));
    }
  }

 private:
  std::vector<uint8_t>& out_;
};

void check_quality(const Fields& in) {
  // §5.1: null means not measured; a number without what was measured is not a quality.
  if (const auto quality = in.maybe_object("quality")) {
    quality->text("metric");
    quality->number("value");
  }
}

Mask parse_meta(const Fields& in) {
  Mask out;
  out.task_id = static_cast<uint32_t>(in.integer("task_id", std::numeric_limits<uint32_t>::max()));
  out.name = in.text("name");
  out.description = in.maybe_text("description").value_or("");
  out.sparsity = in.number("sparsity");
  out.priority = in.text("priority");
  if (std::find(kPriorities.begin(), kPriorities.end(), out.priority) == kPriorities.end()) {
    in.wrong("priority", fmt::format("'{}' is none of Fallback, Normal, Primary", printable(out.priority, 40)));
  }
  check_quality(in);
  if (const Json* quality = in.find_set("quality")) out.quality = write_json(*quality);
  in.flag_or("has_hot_pack", false);
  out.has_expert_fields = in.flag_or("has_expert_fields", false);
  out.json = write_json(in.json());
  return out;
}

void parse_blob(Mask& mask, Bytes blob, const Arch& arch, bool loop_masks, const Fields& in) {
  if (mask.has_expert_fields && !arch.moe) in.wrong("has_expert_fields", "is set for a model without experts");
  const uint64_t physical = mask_blob_size(arch, false, mask.has_expert_fields),
                 visits = mask_blob_size(arch, true, mask.has_expert_fields);
  if (blob.size() == visits && arch.num_loops > 1) {
    if (!loop_masks) {
      in.wrong("blob_len", "says one row per visit, which needs the feature bit LOOP_MASKS, and that is not set");
    }
    mask.per_visit = true;
  } else if (blob.size() != physical) {
    in.wrong("blob_len", fmt::format("{} bytes, the model's mask has {}{}", blob.size(), physical,
                                     arch.num_loops > 1 ? fmt::format(" or {}", visits) : ""));
  }
  read_mask_blob(mask, blob, arch);
}

Json meta_of(const Mask& mask) {
  Json out = mask.json.empty() ? Json::object() : parse_lossless_json(mask.json, "mask");
  out["task_id"] = mask.task_id;
  out["name"] = mask.name;
  if (!mask.description.empty() || !out.contains("description")) {
    out["description"] = mask.description.empty() ? Json(nullptr) : Json(mask.description);
  }
  out["sparsity"] = mask.sparsity;
  out["quality"] = mask.quality.empty() ? Json(nullptr) : parse_lossless_json(mask.quality, "quality");
  if (!out.contains("parent")) out["parent"] = nullptr;
  out["priority"] = mask.priority;
  if (!out.contains("has_hot_pack")) out["has_hot_pack"] = false;
  out["has_expert_fields"] = mask.has_expert_fields;
  out["blob_off"] = 0;
  out["blob_len"] = 0;
  return out;
}

std::vector<uint8_t> blob_of(const Mask& mask, const Arch& arch) {
  const BlobShape shape(arch, mask.per_visit, mask.has_expert_fields);
  std::vector<uint8_t> out;
  BitWriter writer(out);
  const auto rows = [&](const std::vector<std::vector<uint8_t>>& source, uint64_t count, uint64_t bits) {
    for (uint64_t i = 0; i < count; ++i) writer.row(i < source.size() ? &source[i] : nullptr, bits);
  };
  rows(mask.ffn, shape.visits, shape.neurons);
  rows(mask.heads, shape.layers, shape.heads);
  writer.row(&mask.gates, shape.layers);
  if (mask.has_expert_fields) rows(mask.experts, shape.layers, shape.experts);
  return out;
}

}  // namespace

uint64_t mask_blob_size(const Arch& arch, bool per_visit, bool with_experts) {
  return BlobShape(arch, per_visit, with_experts).size();
}

void read_mask_blob(Mask& mask, Bytes blob, const Arch& arch) {
  const BlobShape shape(arch, mask.per_visit, mask.has_expert_fields);
  BitReader reader(blob);
  mask.ffn = reader.rows(shape.visits, shape.neurons, mask.tail_bits);
  mask.heads = reader.rows(shape.layers, shape.heads, mask.tail_bits);
  mask.gates = reader.row(shape.layers, mask.tail_bits);
  if (mask.has_expert_fields) mask.experts = reader.rows(shape.layers, shape.experts, mask.tail_bits);
}

Masks parse_masks(Bytes section, const Arch& arch, bool loop_masks, std::string_view what) {
  const std::string where = fmt::format("{}: masks", what);
  const auto count = section.read<uint32_t>(0, where), meta_len = section.read<uint32_t>(4, where);
  const Bytes meta = section.slice(kHeadBytes, meta_len, where + ": meta");
  const Json json = parse_lossless_json(meta.text(), where);
  const Fields in(json, "masks", what);
  Masks out;
  out.default_task = in.text("default_task");
  const Json& list = in.array("masks");
  if (list.size() != count) in.wrong("masks", fmt::format("{} entries, the section says {}", list.size(), count));
  uint64_t together = 0;
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields one(list[i], fmt::format("masks.masks[{}]", i), what);
    Mask mask = parse_meta(one);
    if (!names.insert(mask.name).second)
      one.wrong("name", fmt::format("'{}' is the name of an earlier mask too", printable(mask.name, 60)));
    const Bytes blob = section.slice(one.integer("blob_off"), one.integer("blob_len"),
                                     fmt::format("{} '{}'", where, printable(mask.name, 60)));
    // Blobs may not lie over one another: a small section would unfold into any amount of memory.
    together += blob.size();
    if (together > section.size())
      fail(ErrorKind::Bounds, "{}: blobs of {} bytes in a section of {}", where, together, section.size());
    parse_blob(mask, blob, arch, loop_masks, one);
    out.masks.push_back(std::move(mask));
  }
  out.json = write_json(json);
  return out;
}

bool has_visit_rows(const Masks& masks, const Arch& arch) {
  return arch.num_loops > 1 &&
         std::any_of(masks.masks.begin(), masks.masks.end(), [](const Mask& mask) { return mask.per_visit; });
}

std::vector<uint8_t> write_masks(const Masks& masks, const Arch& arch) {
  Json meta = masks.json.empty() ? Json::object() : parse_lossless_json(masks.json, "masks");
  meta["default_task"] = masks.default_task;
  Json list = Json::array();
  std::vector<std::vector<uint8_t>> blobs;
  for (const Mask& mask : masks.masks) {
    list.push_back(meta_of(mask));
    blobs.push_back(blob_of(mask, arch));
    list.back()["blob_len"] = blobs.back().size();
  }
  meta["masks"] = std::move(list);

  // The offsets' digits are part of the text whose length they depend on: repeat until they agree. Lengths only grow.
  std::string text = write_json(meta);
  while (true) {
    uint64_t at = align_up(kHeadBytes + text.size(), kBlobAlignment);
    for (size_t i = 0; i < blobs.size(); ++i) {
      meta["masks"][i]["blob_off"] = at;
      at = align_up(at + blobs[i].size(), kBlobAlignment);
    }
    std::string next = write_json(meta);
    const bool stable = next.size() == text.size();
    text = std::move(next);
    if (stable) break;
  }
  if (masks.masks.size() > std::numeric_limits<uint32_t>::max() || text.size() > std::numeric_limits<uint32_t>::max()) {
    fail(ErrorKind::Bounds, "masks: {} masks with {} bytes of meta do not fit the section", masks.masks.size(),
         text.size());
  }
  std::vector<uint8_t> out;
  for (const uint64_t word : {uint64_t{masks.masks.size()}, uint64_t{text.size()}}) {
    for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<uint8_t>(word >> shift));
  }
  out.insert(out.end(), text.begin(), text.end());
  for (const auto& blob : blobs) {
    out.resize(align_up(out.size(), kBlobAlignment));
    out.insert(out.end(), blob.begin(), blob.end());
  }
  return out;
}

}  // namespace cortiq::cmf
