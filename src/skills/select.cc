#include "skills/select.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_system.h"
#include "engine/prompt.h"
#include "engine/route.h"

namespace cortiq::skills {
namespace {

float dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void remove_component(std::vector<float>& v, const std::vector<float>& direction) {
  const float along = dot(v, direction);
  for (size_t i = 0; i < v.size(); ++i) v[i] -= along * direction[i];
}

// Scales to length 1; false for (nearly) nothing.
bool normalise(std::vector<float>& v) {
  const float length = std::sqrt(dot(v, v));
  if (!(length > 1e-12f)) return false;
  for (float& x : v) x /= length;
  return true;
}

}  // namespace

cmf::Selection fit_subspace(const std::vector<std::vector<float>>& points, uint64_t rank) {
  if (points.size() < 2) fail(ErrorKind::Usage, "a selection needs at least two examples, not {}", points.size());
  const size_t width = points.front().size();
  cmf::Selection fit;
  fit.metric = "mse";
  fit.mean.assign(width, 0);
  for (const auto& point : points) {
    for (size_t i = 0; i < width; ++i) fit.mean[i] += point[i];
  }
  for (float& x : fit.mean) x /= static_cast<float>(points.size());
  std::vector<std::vector<float>> centred = points;
  for (auto& point : centred) {
    for (size_t i = 0; i < width; ++i) point[i] -= fit.mean[i];
  }
  const uint64_t most = std::min<uint64_t>({rank, points.size() - 1, 8});
  std::vector<std::vector<float>> found;
  while (found.size() < most) {
    std::vector<float> direction(width, 1);
    bool alive = true;
    for (int iteration = 0; iteration < 50 && alive; ++iteration) {
      std::vector<float> next(width, 0);
      for (const auto& point : centred) {
        const float along = dot(point, direction);
        for (size_t i = 0; i < width; ++i) next[i] += along * point[i];
      }
      for (const auto& earlier : found) remove_component(next, earlier);
      alive = normalise(next);
      if (alive) direction = std::move(next);
    }
    if (!alive) break;  // the points span fewer directions
    for (auto& point : centred) remove_component(point, direction);
    found.push_back(std::move(direction));
  }
  fit.rank = found.size();
  for (const auto& direction : found) fit.basis.insert(fit.basis.end(), direction.begin(), direction.end());
  return fit;
}

cmf::Selection select_from_prompts(engine::Decoder& decoder, const std::vector<Json>& rows,
                                   const SelectOptions& options, Progress& progress, const Cancellation& cancel) {
  const engine::Model& model = decoder.model();
  const uint64_t layer = options.phi_layer.value_or(2 * model.visits() / 3);
  if (layer >= model.visits())
    fail(ErrorKind::Usage, "--phi-layer {}: the model has {} layer visits", layer, model.visits());
  std::vector<std::vector<float>> points;
  size_t chat = 0;
  progress.begin("examples", rows.size());
  for (const Json& row : rows) {
    cancel.check();
    std::vector<uint32_t> ids;
    if (row.contains("messages") && row["messages"].is_array()) {
      Json messages = row["messages"];
      while (!messages.empty() && messages.back().is_object() && messages.back().value("role", "") == "assistant") {
        messages.erase(messages.size() - 1);
      }
      if (messages.empty()) fail(ErrorKind::Parse, "an example holds nothing but answers");
      ids = engine::encode_chat(model, messages);
      ++chat;
    } else if (row.contains("prompt") && row["prompt"].is_string()) {
      ids = engine::encode_text(model, row["prompt"].get_ref<const std::string&>());
    } else {
      fail(ErrorKind::Parse, "an example has neither 'messages' nor 'prompt'");
    }
    points.push_back(engine::phi(decoder, ids, layer));
    progress.advance(1);
  }
  if (chat != 0 && chat != rows.size()) {
    fail(ErrorKind::Usage, "{} examples are conversations and {} plain prompts; a selection needs one kind", chat,
         rows.size() - chat);
  }
  cmf::Selection selection = fit_subspace(points, options.rank);
  selection.phi_layer = layer;
  if (chat != 0) selection.prompt = "chat";
  progress.end();
  return selection;
}

Json selection_json(const cmf::Selection& selection) {
  Json json = {{"metric", selection.metric},
               {"phi_layer", selection.phi_layer},
               {"mean", cmf::encode_halves(selection.mean)},
               {"basis", cmf::encode_halves(selection.basis)},
               {"rank", selection.rank}};
  if (!selection.prompt.empty()) json["prompt"] = selection.prompt;
  return json;
}

std::vector<Json> read_rows(const std::string& path) {
  const std::string text = FileSystem::real().read_all(path);
  std::vector<Json> rows;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view one = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rows.push_back(parse_json(one, fmt::format("{} line {}", path, line)));
    if (!rows.back().is_object()) fail(ErrorKind::Parse, "{} line {}: expected a JSON object", path, line);
  }
  if (rows.empty()) fail(ErrorKind::Usage, "{}: holds no rows", path);
  return rows;
}

}  // namespace cortiq::skills
