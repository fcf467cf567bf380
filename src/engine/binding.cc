#include "engine/binding.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/sha256.h"
#include "cmf/mask_edit.h"
#include "engine/overlays.h"

namespace cortiq::engine {

std::vector<std::pair<std::string, double>> parse_blend(std::string_view text) {
  std::vector<std::pair<std::string, double>> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const size_t colon = part.rfind(':');
    double weight = 0;
    const std::string_view number = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    if (colon == 0 || number.empty() || error != std::errc() || end != number.data() + number.size() || !(weight > 0) ||
        !std::isfinite(weight)) {
      fail(ErrorKind::Usage, "--blend '{}': 'id:weight' with a positive weight is needed, found '{}'", printable(text),
           printable(part));
    }
    parts.emplace_back(part.substr(0, colon), weight);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (parts.empty()) fail(ErrorKind::Usage, "--blend names no skill");
  return parts;
}

std::vector<std::vector<uint32_t>> admitted_by_cover(const std::vector<std::vector<uint64_t>>& counts, double cover) {
  if (!(cover > 0 && cover <= 1)) fail(ErrorKind::Usage, "cover {} is out of range, (0, 1] is needed", cover);
  std::vector<std::vector<uint32_t>> admitted(counts.size());
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    const std::vector<uint64_t>& count = counts[layer];
    const uint64_t total = std::accumulate(count.begin(), count.end(), uint64_t{0});
    if (total == 0) continue;
    std::vector<uint32_t> order(count.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return count[a] > count[b]; });
    uint64_t covered = 0;
    size_t kept = 0;
    while (kept < order.size() && (kept == 0 || static_cast<double>(covered) < cover * static_cast<double>(total))) {
      covered += count[order[kept++]];
    }
    order.resize(kept);
    std::sort(order.begin(), order.end());
    admitted[layer] = std::move(order);
  }
  return admitted;
}

std::vector<std::vector<uint64_t>> parse_expert_counts(const Json& json, const Model& model) {
  const auto blocks = model.blocks();
  std::vector<std::vector<uint64_t>> counts(blocks.size());
  if (!json.is_object()) fail(ErrorKind::Parse, "expert statistics: an object of layers is needed");
  for (const auto& [key, row] : json.items()) {
    size_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size() || layer >= blocks.size()) {
      fail(ErrorKind::Parse, "expert statistics: '{}' is no layer of this model ({} layers)", printable(key),
           blocks.size());
    }
    const auto* moe = std::get_if<MoeFfn>(&blocks[layer].ffn);
    if (!row.is_array()) fail(ErrorKind::Parse, "expert statistics: layer {} is no array of counts", layer);
    std::vector<uint64_t> values;
    for (const Json& value : row) {
      if (!value.is_number_unsigned()) {
        fail(ErrorKind::Parse, "expert statistics: layer {} holds '{}', counts are needed", layer,
             printable(value.dump()));
      }
      values.push_back(value.get<uint64_t>());
    }
    // FORMAT_FACTS §12: statistics of another length say nothing about this layer.
    if (moe != nullptr && values.size() == moe->experts.size()) counts[layer] = std::move(values);
  }
  return counts;
}

/// Fills a Binding.
class BindingBuilder {
 public:
  BindingBuilder(const Model& model, const BindingSpec& spec, std::shared_ptr<const Overlay> overlay)
      : model_(model), spec_(spec) {
    binding_->overlay_ = std::move(overlay);
  }

  std::shared_ptr<const Binding> build() {
    for (const kernels::Matrix& matrix : model_.weights().matrices()) binding_->matrices_.push_back(&matrix);
    for (const auto& vector : model_.weights().vectors()) binding_->vectors_.push_back(vector.data());
    if (const Overlay* overlay = binding_->overlay_.get()) {
      for (const auto& [slot, matrix] : overlay->matrices) binding_->matrices_[slot] = &matrix;
      for (const auto& [slot, vector] : overlay->vectors) binding_->vectors_[slot] = vector.data();
      binding_->skill_ = overlay->id;
      binding_->identity_ = overlay->identity;
    }
    if (const cmf::Mask* mask = choose_mask()) apply(*mask);
    restrict_experts(spec_.experts);
    finish();
    return std::move(binding_);
  }

 private:
  std::string file() const { return model_.set().first().path(); }
  const std::vector<cmf::Mask>& masks() const { return model_.set().first().masks().masks; }

  const cmf::Mask* find(const std::string& name) const {
    for (const cmf::Mask& mask : masks()) {
      if (mask.name == name) return &mask;
    }
    return nullptr;
  }

  // decisions 24: --task → the skill's input_mask_task, else its task → default_task → first Fallback → dense.
  const cmf::Mask* choose_mask() {
    if (spec_.task) {
      if (*spec_.task == "none") return nullptr;
      if (const cmf::Mask* mask = find(*spec_.task)) return mask;
      std::string names;
      for (const cmf::Mask& mask : masks()) names += (names.empty() ? "" : ", ") + printable(mask.name);
      fail(ErrorKind::Usage, "{}: no task '{}'; {}", file(), printable(*spec_.task),
           names.empty() ? "the file holds no masks" : "there are: " + names);
    }
    for (const cmf::SkillRecord& record : model_.set().header().skills) {
      if (binding_->skill_.empty() || record.id != binding_->skill_) continue;
      for (const std::string* task : {&record.input_mask_task, &record.task}) {
        if (task->empty()) continue;
        if (const cmf::Mask* mask = find(*task)) return mask;
        if (task == &record.input_mask_task) {
          binding_->warnings_.push_back(fmt::format("skill '{}' asks for the mask '{}', which the file lacks",
                                                    printable(record.id), printable(*task)));
        }
      }
    }
    const std::string& standard = model_.set().first().masks().default_task;
    if (const cmf::Mask* mask = standard.empty() ? nullptr : find(standard)) return mask;
    for (const cmf::Mask& mask : masks()) {
      if (mask.priority == "Fallback") return &mask;
    }
    return nullptr;
  }

  void apply(const cmf::Mask& mask) {
    binding_->task_ = mask.name;
    if (mask.quality.empty()) {
      binding_->warnings_.push_back(fmt::format("the quality of mask '{}' was never measured", printable(mask.name)));
    }
    for (const std::string& one : cmf::mask_warnings(mask)) binding_->warnings_.push_back(one);
    const auto blocks = model_.blocks();
    const uint64_t layers = blocks.size(), visits = model_.visits();
    // Rows per visit, or per layer and then the same in every pass (§5, ENGINE_FACTS §9).
    if (!mask.ffn.empty()) {
      binding_->live_.resize(visits);
      for (uint64_t visit = 0; visit < visits; ++visit) {
        const uint64_t layer = visit % layers;
        const auto* ffn = std::get_if<DenseFfn>(&blocks[layer].ffn);
        if (ffn == nullptr) continue;
        const std::vector<uint8_t>& row = mask.ffn[mask.ffn.size() == visits ? visit : layer];
        Binding::Live& live = binding_->live_[visit];
        for (uint32_t i = 0; i < ffn->width; ++i) {
          if (i >= row.size() || row[i] != 0) live.indices.push_back(i);
        }
        live.all = live.indices.size() == ffn->width;
        if (live.all) live.indices.clear();
        if (!live.all && 2 * live.indices.size() < ffn->width) {  // read-ahead would bring dead neurons into memory
          for (const WeightRef ref : {ffn->gate, ffn->up}) {
            const cmf::Tensor* tensor = model_.set().find(model_.weights().name(ref));
            if (tensor != nullptr) model_.set().advise(*tensor, MappedFile::Advice::Random);
          }
        }
      }
      if (std::all_of(binding_->live_.begin(), binding_->live_.end(), [](const auto& l) { return l.all; })) {
        binding_->live_.clear();
      }
    }
    if (!mask.heads.empty()) {
      binding_->heads_.resize(layers);
      bool any = false;
      for (uint64_t layer = 0; layer < layers; ++layer) {
        const auto* attention = std::get_if<Attention>(&blocks[layer].mixer);
        if (attention == nullptr) continue;
        // A layer may have more heads than the mask has bits: those are alive (§9 of the engine facts).
        std::vector<uint8_t> alive(attention->heads, 1);
        const std::vector<uint8_t>& row = mask.heads[layer];
        std::copy_n(row.begin(), std::min(row.size(), alive.size()), alive.begin());
        if (std::all_of(alive.begin(), alive.end(), [](uint8_t a) { return a != 0; })) continue;
        any = true;
        if (std::none_of(alive.begin(), alive.end(), [](uint8_t a) { return a != 0; })) {
          binding_->warnings_.push_back(
              fmt::format("mask '{}' leaves no head alive in layer {}", printable(mask.name), layer));
        }
        binding_->heads_[layer] = std::move(alive);
      }
      if (!any) binding_->heads_.clear();
    }
    if (std::any_of(mask.gates.begin(), mask.gates.end(), [](uint8_t gate) { return gate == 0; })) {
      binding_->gates_ = mask.gates;
    }
    std::vector<std::vector<uint32_t>> admitted(mask.experts.empty() ? 0 : layers);
    for (uint64_t layer = 0; layer < admitted.size(); ++layer) {
      const auto* moe = std::get_if<MoeFfn>(&blocks[layer].ffn);
      if (moe == nullptr) continue;
      const std::vector<uint8_t>& row = mask.experts[layer];
      for (uint32_t e = 0; e < moe->experts.size(); ++e) {
        if (e >= row.size() || row[e] != 0) admitted[layer].push_back(e);
      }
      if (admitted[layer].empty()) {
        fail(ErrorKind::Parse, "{}: mask '{}' admits no expert in layer {}", file(), printable(mask.name), layer);
      }
    }
    restrict_experts(admitted);
  }

  void restrict_experts(const std::vector<std::vector<uint32_t>>& admitted) {
    const auto blocks = model_.blocks();
    for (uint64_t layer = 0; layer < std::min(admitted.size(), blocks.size()); ++layer) {
      const auto* moe = std::get_if<MoeFfn>(&blocks[layer].ffn);
      if (moe == nullptr || admitted[layer].empty() || admitted[layer].size() == moe->experts.size()) continue;
      if (binding_->experts_.empty()) binding_->experts_.resize(blocks.size());
      std::vector<uint32_t>& current = binding_->experts_[layer];
      if (current.empty()) {
        current = admitted[layer];
      } else {
        std::vector<uint32_t> both;
        std::set_intersection(current.begin(), current.end(), admitted[layer].begin(), admitted[layer].end(),
                              std::back_inserter(both));
        if (both.empty()) {
          fail(ErrorKind::Usage, "{}: the mask and the expert set admit no common expert in layer {}", file(), layer);
        }
        current = std::move(both);
      }
    }
  }

  // What restricts nothing is nothing: a full mask has the dense binding's identity and costs nothing.
  void finish() {
    Sha256 hash;
    const auto note = [&](const void* data, size_t size) {
      hash.update(Bytes(static_cast<const uint8_t*>(data), size));
    };
    const auto list = [&](const std::vector<uint32_t>& values) {
      const uint64_t count = values.size();
      note(&count, sizeof(count));
      note(values.data(), count * sizeof(uint32_t));
    };
    for (const Binding::Live& live : binding_->live_) {
      note(&live.all, 1);
      list(live.indices);
    }
    for (const auto& row : binding_->heads_) {
      const uint64_t count = row.size();
      note(&count, sizeof(count));
      note(row.data(), count);
    }
    note(binding_->gates_.data(), binding_->gates_.size());
    for (const auto& row : binding_->experts_) list(row);
    if (!binding_->masked()) return;
    const Digest256 digest = hash.finish();
    binding_->identity_ +=
        (binding_->identity_.empty() ? "mask " : ", mask ") + hex(Bytes(digest.data(), digest.size()));
  }

  const Model& model_;
  const BindingSpec& spec_;
  std::shared_ptr<Binding> binding_ = std::make_shared<Binding>();
};

std::shared_ptr<const Binding> Model::bind(const BindingSpec& spec) const {
  std::shared_ptr<const Overlay> overlay;
  if (!spec.blend.empty()) {
    if (!spec.skill.empty() && spec.skill != "none") {
      fail(ErrorKind::Usage, "a skill and a blend exclude each other");
    }
    std::vector<std::pair<std::string, double>> parts = spec.blend;
    double sum = 0;
    for (const auto& [id, weight] : parts) sum += weight;
    for (auto& [id, weight] : parts) weight /= sum;
    overlay = blend_overlay(*this, parts);
  } else if (!spec.skill.empty() && spec.skill != "none") {
    const std::lock_guard lock(overlays_->mutex);
    auto known = overlays_->skills.find(spec.skill);
    if (known == overlays_->skills.end()) {
      known = overlays_->skills.emplace(spec.skill, skill_overlay(*this, spec.skill)).first;
    }
    overlay = known->second;
  }
  return BindingBuilder(*this, spec, std::move(overlay)).build();
}

std::shared_ptr<const Binding> Model::backbone() const {
  BindingSpec spec;
  spec.task = "none";
  return bind(spec);
}

}  // namespace cortiq::engine
