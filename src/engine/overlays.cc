#include "engine/overlays.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash64.h"
#include "base/sha256.h"

namespace cortiq::engine {

namespace {

std::string known_skills(const Model& model) {
  std::string names;
  for (const cmf::SkillRecord& record : model.set().header().skills) {
    names += (names.empty() ? "" : ", ") + printable(record.id);
  }
  return names.empty() ? "the file holds none" : "there are: " + names;
}

// The backbone's name that shares the longest beginning with `name`: where a misspelt one went astray.
std::string_view nearest(const Model& model, std::string_view name) {
  std::string_view best;
  size_t most = 0;
  for (const cmf::Tensor& tensor : model.set().tensors()) {
    const std::string_view other = tensor.name;
    const size_t limit = std::min(name.size(), other.size());
    size_t same = 0;
    while (same < limit && name[same] == other[same]) ++same;
    if (same > most) {
      most = same;
      best = other;
    }
  }
  return best;
}

std::string digest(const std::string& text) {
  const Digest256 value = sha256(Bytes(text));
  return hex(Bytes(value.data(), value.size()));
}

}  // namespace

std::shared_ptr<const Overlay> skill_overlay(const Model& model, const std::string& id) {
  const std::string prefix = "skill." + id + ".";
  const cmf::FileSet& set = model.set();
  const auto& records = set.header().skills;
  const bool recorded = std::any_of(records.begin(), records.end(), [&](const auto& r) { return r.id == id; });
  auto overlay = std::make_shared<Overlay>();
  overlay->id = id;
  std::string content;
  for (const cmf::Tensor& tensor : set.tensors()) {
    if (tensor.name.substr(0, prefix.size()) != prefix) continue;
    const std::string_view name = tensor.name.substr(prefix.size());
    const cmf::Tensor* base = set.find(name);
    if (base == nullptr) {
      fail(ErrorKind::Parse, "{}: '{}' replaces nothing: the backbone has no '{}'; the nearest name is '{}'",
           set.first().path(), printable(tensor.name), printable(name), printable(nearest(model, name)));
    }
    if (!(base->shape == tensor.shape)) {
      fail(ErrorKind::Parse, "{}: '{}' has shape {}, the backbone's tensor has {}", set.first().path(),
           printable(tensor.name), tensor.shape.text(), base->shape.text());
    }
    if (const WeightRef ref = model.weights().find_matrix(name)) {
      overlay->matrices.emplace_back(
          ref.slot, kernels::Matrix(tensor.dtype, tensor.shape.rows(), tensor.shape.cols(), set.payload(tensor)));
    } else if (const VectorRef vector = model.weights().find_vector(name)) {
      overlay->vectors.emplace_back(vector.slot, decode_all(set, tensor));
    }
    content += std::string(name) + " " + std::string(codec::name(tensor.dtype)) + " " + hex64(tensor.hash) + "\n";
  }
  if (!recorded && content.empty()) {
    fail(ErrorKind::Usage, "{}: no skill '{}'; {}", set.first().path(), printable(id), known_skills(model));
  }
  if (content.empty() && std::none_of(records.begin(), records.end(),
                                      [&](const auto& r) { return r.id == id && r.selection.has_value(); })) {
    fail(ErrorKind::Parse, "{}: skill '{}' has neither tensors nor a selection", set.first().path(), printable(id));
  }
  overlay->identity = content.empty() ? "" : "skill " + digest(content);
  return overlay;
}

std::shared_ptr<const Overlay> blend_overlay(const Model& model,
                                             std::span<const std::pair<std::string, double>> parts) {
  auto blend = std::make_shared<Overlay>();
  std::vector<std::shared_ptr<const Overlay>> skills;
  std::vector<uint32_t> matrices, vectors;
  for (const auto& [id, weight] : parts) {
    skills.push_back(skill_overlay(model, id));
    for (const auto& [slot, matrix] : skills.back()->matrices) matrices.push_back(slot);
    for (const auto& [slot, values] : skills.back()->vectors) vectors.push_back(slot);
    blend->identity += fmt::format("{} {:a}\n", skills.back()->identity, weight);
  }
  blend->identity = "blend " + digest(blend->identity);
  const auto distinct = [](std::vector<uint32_t>& slots) {
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  };
  distinct(matrices);
  distinct(vectors);

  for (const uint32_t slot : matrices) {
    const kernels::Matrix& base = model.weights().matrices()[slot];
    std::vector<float> sum(base.rows() * base.cols(), 0.0f), row(base.cols());
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& replaced = skills[i]->matrices;
      const auto found = std::find_if(replaced.begin(), replaced.end(), [&](const auto& m) { return m.first == slot; });
      const kernels::Matrix& matrix = found == replaced.end() ? base : found->second;
      const auto weight = static_cast<float>(parts[i].second);
      for (uint64_t r = 0; r < base.rows(); ++r) {
        matrix.decode_row(r, row.data());
        float* out = sum.data() + r * base.cols();
        for (uint64_t c = 0; c < base.cols(); ++c) out[c] += weight * row[c];
      }
    }
    blend->working.push_back(std::move(sum));
    const std::vector<float>& values = blend->working.back();
    blend->matrices.emplace_back(
        slot, kernels::Matrix(codec::Dtype::F32, base.rows(), base.cols(),
                              Bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float))));
  }
  for (const uint32_t slot : vectors) {
    const std::vector<float>& base = model.weights().vectors()[slot];
    std::vector<float> sum(base.size(), 0.0f);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& replaced = skills[i]->vectors;
      const auto found = std::find_if(replaced.begin(), replaced.end(), [&](const auto& v) { return v.first == slot; });
      const std::vector<float>& values = found == replaced.end() ? base : found->second;
      const auto weight = static_cast<float>(parts[i].second);
      for (size_t c = 0; c < sum.size(); ++c) sum[c] += weight * values[c];
    }
    blend->vectors.emplace_back(slot, std::move(sum));
  }
  return blend;
}

}  // namespace cortiq::engine
