#include "cmf/diff.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/hash64.h"
#include "cmf/envelope.h"
#include "cmf/lossless_json.h"
#include "cmf/shard_header.h"

namespace cortiq::cmf {
namespace {

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", codec::name(tensor.dtype), tensor.shape.text());
}

std::string hash_or_nothing(Bytes bytes) {
  return bytes.empty() ? "" : fmt::format("{} bytes, hash {}", bytes.size(), hex64(hash64(bytes)));
}

void diff_sections(const FileSet& a, const FileSet& b, std::vector<Difference>& out) {
  const auto compare = [&](std::string what, std::string left, std::string right) {
    if (left != right) out.push_back({std::move(what), std::move(left), std::move(right)});
  };
  const auto joined = [](const FileSet& set) {
    uint32_t features = 0;  // a shard sets the bits of its own tensors
    for (const auto& file : set.files()) features |= file->envelope().features;
    std::string text;
    for (const std::string& one : feature_names(features)) text += (text.empty() ? "" : " ") + one;
    return text;
  };
  compare("required_features", joined(a), joined(b));
  compare("shards", std::to_string(a.files().size()), std::to_string(b.files().size()));
  compare("masks", hash_or_nothing(a.first().masks_bytes()), hash_or_nothing(b.first().masks_bytes()));
  compare("tokenizer", hash_or_nothing(a.first().vocab_bytes()), hash_or_nothing(b.first().vocab_bytes()));
  compare("index", hash_or_nothing(a.first().index_bytes()), hash_or_nothing(b.first().index_bytes()));
}

// Keys of two JSON objects by path; anything but two objects is compared as a whole. Depth is bounded by the parser.
void diff_json(const std::string& path, const Json* a, const Json* b, std::vector<Difference>& out) {
  if (a && b && a->is_object() && b->is_object()) {
    const auto child = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
    std::unordered_map<std::string_view, const Json*> others;  // ordered_json looks keys up one by one
    for (const auto& [key, value] : b->items()) others.emplace(key, &value);
    for (const auto& [key, value] : a->items()) {
      const auto other = others.find(key);
      diff_json(child(key), &value, other == others.end() ? nullptr : other->second, out);
      if (other != others.end()) others.erase(other);
    }
    for (const auto& [key, value] : b->items()) {
      if (others.contains(key)) diff_json(child(key), nullptr, &value, out);
    }
    return;
  }
  const std::string left = a ? write_json(*a) : "", right = b ? write_json(*b) : "";
  if (left != right) out.push_back({path, left, right});
}

Json comparable_header(const FileSet& set) {
  Json out = without_shard(*set.header().json);
  out.erase("section_hashes");
  out.erase("skills");
  return out;
}

// Pairs the elements of two lists by name and reports those whose text differs.
template <class List, class Name, class Text>
void diff_named(const List& a, const List& b, Name name, Text text, std::vector<Difference>& out) {
  for (const auto& one : a) {
    const auto other = std::find_if(b.begin(), b.end(), [&](const auto& two) { return name(two) == name(one); });
    std::string left = text(one), right = other == b.end() ? "" : text(*other);
    if (left != right) out.push_back({name(one), std::move(left), std::move(right)});
  }
  for (const auto& one : b) {
    if (std::none_of(a.begin(), a.end(), [&](const auto& two) { return name(two) == name(one); })) {
      out.push_back({name(one), "", text(one)});
    }
  }
}

std::string mask_text(const Mask& mask) {
  const auto count = [](const auto& rows) {
    uint64_t active = 0, all = 0;
    for (const auto& row : rows) {
      active += static_cast<uint64_t>(std::count(row.begin(), row.end(), uint8_t{1}));
      all += row.size();
    }
    return fmt::format("{}/{}", active, all);
  };
  Hash64 bits;
  for (const auto* rows : {&mask.ffn, &mask.heads, &mask.experts}) {
    for (const auto& row : *rows) bits.update(Bytes{std::span<const uint8_t>(row)});
  }
  bits.update(Bytes{std::span<const uint8_t>(mask.gates)});
  return fmt::format("id {}, {}, neurons {}, heads {}, gates {}{}, quality {}, bits {}", mask.task_id, mask.priority,
                     count(mask.ffn), count(mask.heads), count(std::vector<std::vector<uint8_t>>{mask.gates}),
                     mask.has_expert_fields ? ", experts " + count(mask.experts) : "",
                     mask.quality.empty() ? "null" : mask.quality, hex64(bits.finish()));
}

// A part of two tensors' rows, compared by one thread.
struct Rows {
  size_t pair;
  uint64_t first, count;
};
struct Pair {
  const Tensor *a, *b;
  size_t at;  // in Diff::tensors
};

// |a − b| and its share of the larger magnitude; not-a-number against the same counts as equal.
void compare_values(const float* a, const float* b, uint64_t count, double& max_abs, double& max_rel) {
  for (uint64_t i = 0; i < count; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    double share = difference / std::max(std::abs(static_cast<double>(a[i])), std::abs(static_cast<double>(b[i])));
    if (!std::isfinite(difference)) difference = share = std::numeric_limits<double>::infinity();
    max_abs = std::max(max_abs, difference);
    max_rel = std::max(max_rel, share);
  }
}

void diff_values(const FileSet& a, const FileSet& b, std::span<const Pair> pairs, Diff& out, ThreadPool& pool,
                 Progress& progress, const Cancellation& cancel) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;  // values of each side in memory per thread
  std::vector<Rows> pieces;
  uint64_t total = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const uint64_t rows = pairs[i].a->shape.rows(), cols = pairs[i].a->shape.cols();
    const uint64_t step = std::max<uint64_t>(1, kPiece / std::max<uint64_t>(1, cols));
    for (uint64_t row = 0; row < rows; row += step) pieces.push_back({i, row, std::min(step, rows - row)});
    total += pairs[i].a->nbytes + pairs[i].b->nbytes;
  }
  progress.begin("diff", total);
  std::mutex mutex;
  pool.run(pieces.size(), [&](size_t i) {
    cancel.check();
    const Rows& piece = pieces[i];
    const Pair& pair = pairs[piece.pair];
    const uint64_t count = piece.count * pair.a->shape.cols();
    std::vector<float> left(count), right(count);
    decode_rows(a, *pair.a, piece.first, piece.count, left.data());
    decode_rows(b, *pair.b, piece.first, piece.count, right.data());
    double max_abs = 0, max_rel = 0;
    compare_values(left.data(), right.data(), count, max_abs, max_rel);
    const std::lock_guard lock(mutex);
    TensorDifference& into = out.tensors[pair.at];
    into.max_abs = std::max(into.max_abs.value_or(0), max_abs);
    into.max_rel = std::max(into.max_rel.value_or(0), max_rel);
    progress.advance((pair.a->nbytes + pair.b->nbytes) * piece.count / std::max<uint64_t>(1, pair.a->shape.rows()));
  });
  progress.end();
}

Json list_json(const std::vector<Difference>& list) {
  const auto side = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json out = Json::array();
  for (const Difference& one : list) out.push_back({{"what", one.what}, {"a", side(one.a)}, {"b", side(one.b)}});
  return out;
}

Json number_json(const std::optional<double>& value) {
  if (!value) return nullptr;
  return std::isfinite(*value) ? Json(*value) : Json("infinity");
}

}  // namespace

Diff diff(const FileSet& a, const FileSet& b, ThreadPool& pool, Progress& progress, const Cancellation& cancel) {
  Diff out;
  diff_sections(a, b, out.sections);
  const Json left = comparable_header(a), right = comparable_header(b);
  diff_json("", &left, &right, out.header);
  const auto& masks_a = a.first().masks();
  const auto& masks_b = b.first().masks();
  if (masks_a.default_task != masks_b.default_task) {
    out.masks.push_back({"default_task", masks_a.default_task, masks_b.default_task});
  }
  diff_named(
      masks_a.masks, masks_b.masks, [](const Mask& mask) { return mask.name; }, mask_text, out.masks);
  diff_named(
      a.header().skills, b.header().skills, [](const SkillRecord& one) { return one.id; },
      [](const SkillRecord& one) { return one.json; }, out.skills);

  std::vector<Pair> pairs;
  for (const Tensor& one : a.tensors()) {
    const Tensor* two = b.find(one.name);
    TensorDifference found;
    found.name = one.name;
    found.a = described(one);
    if (!two) {
      found.only_a = true;
      out.tensors.push_back(std::move(found));
      continue;
    }
    found.b = described(*two);
    found.bytes = one.nbytes != two->nbytes || one.hash != two->hash;
    if (!found.bytes && found.a == found.b) {
      ++out.equal_tensors;
      continue;
    }
    if (one.shape == two->shape) pairs.push_back({&one, two, out.tensors.size()});
    out.tensors.push_back(std::move(found));
  }
  for (const Tensor& two : b.tensors()) {
    if (a.find(two.name)) continue;
    TensorDifference found;
    found.name = two.name;
    found.only_b = true;
    found.b = described(two);
    out.tensors.push_back(std::move(found));
  }
  diff_values(a, b, pairs, out, pool, progress, cancel);
  return out;
}

Json to_json(const Diff& diff) {
  Json tensors = Json::array();
  for (const TensorDifference& one : diff.tensors) {
    Json row = Json::object();
    row["name"] = one.name;
    row["a"] = one.only_b ? Json(nullptr) : Json(one.a);
    row["b"] = one.only_a ? Json(nullptr) : Json(one.b);
    row["bytes_differ"] = one.bytes;
    row["max_abs"] = number_json(one.max_abs);
    row["max_rel"] = number_json(one.max_rel);
    tensors.push_back(std::move(row));
  }
  Json out = Json::object();
  out["different"] = diff.different();
  out["sections"] = list_json(diff.sections);
  out["header"] = list_json(diff.header);
  out["masks"] = list_json(diff.masks);
  out["skills"] = list_json(diff.skills);
  out["tensors"] = std::move(tensors);
  out["equal_tensors"] = diff.equal_tensors;
  return out;
}

}  // namespace cortiq::cmf
