#include "engine/route.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace cortiq::engine {

namespace {

// Sums one visit's rows and stops behind it.
class MeanOfVisit : public Observer {
 public:
  MeanOfVisit(uint64_t visit, uint64_t hidden) : visit_(visit), sum_(hidden, 0.0) {}
  void visited(uint64_t visit, const float* h, uint64_t rows) override {
    if (visit != visit_) return;
    for (uint64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(h[row * sum_.size() + i]);
    }
    rows_ += rows;
  }
  bool more(uint64_t visit) override { return visit < visit_; }
  std::vector<float> mean() const {
    std::vector<float> result;
    for (const double sum : sum_) result.push_back(static_cast<float>(sum / static_cast<double>(rows_)));
    return result;
  }

 private:
  uint64_t visit_, rows_ = 0;
  std::vector<double> sum_;
};

// ‖r‖² − ‖Br‖² and ‖φ‖².
struct Distance {
  double raw, length;
};

Distance distance(const cmf::Selection& selection, std::span<const float> phi) {
  const size_t hidden = phi.size();
  double length = 0, residual = 0;
  for (const float value : phi) length += static_cast<double>(value) * static_cast<double>(value);
  length = std::max(length, 1e-12);
  // "mse_unit" (ENGINE_FACTS §10): φ is brought to unit length first.
  const double unit = selection.metric == "mse_unit" ? 1 / std::sqrt(length) : 1;
  std::vector<double> r(hidden);
  for (size_t i = 0; i < hidden; ++i) {
    r[i] = unit * static_cast<double>(phi[i]) - static_cast<double>(selection.mean[i]);
    residual += r[i] * r[i];
  }
  for (uint64_t k = 0; k < selection.rank; ++k) {
    double dot = 0;
    for (size_t i = 0; i < hidden; ++i) dot += static_cast<double>(selection.basis[k * hidden + i]) * r[i];
    residual -= dot * dot;
  }
  return {std::max(residual, 0.0), length * unit * unit};
}

// The reference's calibration, if header and record carry one (ENGINE_FACTS §10): novelty from the raw errors.
std::optional<bool> calibrated_novelty(const Model& model, const std::string& record, std::vector<double> raw) {
  const Json& header = *model.set().header().json;
  if (!header.contains("routing") || !header["routing"].is_object()) return std::nullopt;
  const Json& routing = header["routing"];
  const Json parsed = parse_json(record, "skill record");
  if (!parsed.contains("selection") || !parsed["selection"].is_object()) return std::nullopt;
  const Json& selection = parsed["selection"];
  const auto number = [](const Json& json, const char* key) -> std::optional<double> {
    if (!json.contains(key) || !json[key].is_number()) return std::nullopt;
    return json[key].get<double>();
  };
  const auto mean = number(selection, "err_mean"), deviation = number(selection, "err_std");
  const auto theta = number(routing, "novelty_theta");
  if (!mean || !deviation || !theta) return std::nullopt;
  std::sort(raw.begin(), raw.end());
  const double temperature = std::max(number(routing, "temperature").value_or(1), 1e-3);
  double total = 0;
  for (const double value : raw) total += std::exp((raw.front() - value) / temperature);
  const double confidence = 1 / total;
  const double margin = 1 / (1 + raw[0]) - (raw.size() > 1 ? 1 / (1 + raw[1]) : 0);
  const double z = (raw.front() - *mean) / std::max(*deviation, 1e-4);
  const double novelty = 0.5 / (1 + std::exp(-z)) + 0.25 / (1 + 8 * margin) + 0.25 * (1 - confidence);
  return novelty > *theta;
}

}  // namespace

std::vector<float> phi(Decoder& decoder, std::span<const uint32_t> ids, uint64_t phi_layer) {
  if (ids.empty()) fail(ErrorKind::Usage, "there are no ids to route");
  MeanOfVisit mean(phi_layer, decoder.model().hidden());
  const auto sequence = decoder.sequence(decoder.model().backbone());
  while (!ids.empty()) {
    const auto part = ids.first(std::min<size_t>(ids.size(), decoder.max_rows()));
    ids = ids.subspan(part.size());
    const Piece piece{sequence.get(), part, Piece::Logits::None};
    decoder.forward({&piece, 1}, &mean);
  }
  return mean.mean();
}

double energy(const cmf::Selection& selection, std::span<const float> phi) {
  const Distance d = distance(selection, phi);
  return d.raw / d.length;
}

Routing route(Decoder& decoder, const RoutePrompt& prompt) {
  const Model& model = decoder.model();
  Routing routing;
  std::map<std::pair<uint64_t, bool>, std::vector<float>> known;  // by layer and form of the prompt
  std::vector<double> raw;
  const cmf::SkillRecord* best = nullptr;
  double least = 0;
  for (const cmf::SkillRecord& record : model.set().header().skills) {
    if (!record.selection) continue;
    const cmf::Selection& selection = *record.selection;
    if (!selection.unusable.empty()) {
      routing.warnings.push_back(
          fmt::format("skill '{}' cannot be routed to: {}", printable(record.id), selection.unusable));
      continue;
    }
    const bool chat = selection.prompt == "chat";
    auto found = known.find({selection.phi_layer, chat});
    if (found == known.end()) {
      found = known
                  .emplace(std::pair(selection.phi_layer, chat),
                           phi(decoder, chat ? prompt.chat : prompt.raw, selection.phi_layer))
                  .first;
    }
    const Distance d = distance(selection, found->second);
    const double value = d.raw / d.length;
    if (!std::isfinite(value)) {
      routing.warnings.push_back(fmt::format("skill '{}' has no finite energy", printable(record.id)));
      continue;
    }
    raw.push_back(d.raw);
    routing.energies.push_back({record.id, value, selection.phi_layer});
    if (best == nullptr || value < least) {
      best = &record;
      least = value;
    }
  }
  if (best != nullptr) {
    routing.choice = best->id;
    routing.novel = calibrated_novelty(model, best->json, std::move(raw)).value_or(least > 0.30);
  }
  return routing;
}

std::vector<std::pair<std::string, double>> blend_weights(const Routing& routing, double temperature, size_t most) {
  std::vector<Routing::Energy> sorted = routing.energies;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  sorted.resize(std::min(sorted.size(), most));
  std::vector<std::pair<std::string, double>> weights;
  double total = 0;
  for (const Routing::Energy& energy : sorted) {
    const double weight = std::exp((sorted.front().value - energy.value) / std::max(temperature, 1e-3));
    weights.emplace_back(energy.id, weight);
    total += weight;
  }
  for (auto& [id, weight] : weights) weight /= total;
  return weights;
}

}  // namespace cortiq::engine
