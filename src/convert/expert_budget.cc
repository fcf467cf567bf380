#include "convert/expert_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cmf/tensor_name.h"
#include "codec/vbit.h"
#include "convert/config.h"

namespace cortiq::convert {
namespace {

struct ExpertName {
  uint64_t layer, expert;
  std::string_view projection;
};

std::optional<ExpertName> expert_name(std::string_view name) {
  const auto layer = cmf::layer_name(name);
  const auto expert = layer ? cmf::expert_name(layer->rest) : std::nullopt;
  if (!expert || !name.ends_with("_proj.weight")) return std::nullopt;
  return ExpertName{layer->number, expert->number, expert->rest};
}

// log2 of each row's largest magnitude.
std::vector<double> amplitudes(const PlannedTensor& tensor, ThreadPool& pool) {
  const std::vector<float> values = read_values(tensor, pool);
  const uint64_t rows = tensor.shape.rows(), cols = tensor.shape.cols();
  std::vector<double> out(rows);
  for (uint64_t r = 0; r < rows; ++r) {
    float most = 1e-12f;
    for (uint64_t c = 0; c < cols; ++c) most = std::max(most, std::fabs(values[r * cols + c]));
    out[r] = std::log2(static_cast<double>(most));
  }
  return out;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace

std::map<uint64_t, std::vector<uint64_t>> read_route_stats(const std::string& path, FileSystem& files) {
  const Json json = parse_json(files.read_all(path), path);
  if (!json.is_object()) fail(ErrorKind::Parse, "{}: an object of layers expected", path);
  const Config stats(json, nullptr, path + ": ");
  std::map<uint64_t, std::vector<uint64_t>> out;
  for (const auto& [key, value] : json.items()) {
    uint64_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size()) {
      fail(ErrorKind::Parse, "{}: '{}' is no layer", path, printable(key, 40));
    }
    out[layer] = stats.counts(key);
  }
  return out;
}

ExpertBudget::ExpertBudget(std::span<const PlannedTensor> tensors, double mean_bits,
                           std::map<uint64_t, std::vector<uint64_t>> counts)
    : mean_bits_(codec::vbit_budget(mean_bits)), counts_(std::move(counts)) {
  for (const PlannedTensor& one : tensors) {
    if (one.dtype != codec::Dtype::Vbit && one.dtype != codec::Dtype::VbitRo) continue;
    const auto name = expert_name(one.name);
    if (!name) continue;
    Family& family = families_[fmt::format("{}/{}", name->layer, name->projection)];
    family.layer = name->layer;
    family.members.push_back({&one, name->expert});
    members_[&one] = {&family, family.members.size() - 1};
  }
}

float ExpertBudget::bias(const PlannedTensor& tensor, ThreadPool& pool) {
  const auto at = members_.find(&tensor);
  if (at == members_.end()) return 0;
  auto& [family, index] = at->second;
  if (!family->settled) settle(*family, pool);
  family->settled = true;
  return family->members[index].bias;
}

void ExpertBudget::settle(Family& family, ThreadPool& pool) const {
  const size_t count = family.members.size();
  std::vector<std::vector<double>> rows;
  std::vector<double> means, popularity(count, 0);
  for (const Member& one : family.members) {
    rows.push_back(amplitudes(*one.tensor, pool));
    means.push_back(mean(rows.back()));
  }
  if (const auto stats = counts_.find(family.layer); stats != counts_.end()) {
    for (size_t e = 0; e < count; ++e) {
      const uint64_t expert = family.members[e].expert;
      const uint64_t chosen = expert < stats->second.size() ? stats->second[expert] : 0;
      popularity[e] = std::log2(static_cast<double>(chosen) + 1);
    }
    const double middle = mean(popularity);
    for (double& one : popularity) one -= middle;
  }
  const double centre = mean(means);
  std::vector<double> shift(count);
  for (size_t e = 0; e < count; ++e) shift[e] = std::clamp(means[e] - centre + popularity[e], -2.5, 2.5);
  const double middle = mean(shift);

  // Snapping to levels moves the mean; one common shift brings it back to the budget.
  double low = -3, high = 3;
  for (int step = 0; step < 40; ++step) {
    const double delta = (low + high) / 2;
    double bits = 0, total = 0;
    for (size_t e = 0; e < count; ++e) {
      for (const double a : rows[e]) {
        bits += codec::vbit_level(static_cast<float>(mean_bits_ + (a - means[e] + shift[e] - middle) + delta));
      }
      total += static_cast<double>(rows[e].size());
    }
    (bits < mean_bits_ * total ? low : high) = delta;
  }
  const double delta = (low + high) / 2;
  for (size_t e = 0; e < count; ++e) family.members[e].bias = static_cast<float>(shift[e] - middle + delta);
}

}  // namespace cortiq::convert
