#include "convert/defrag.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "convert/npy.h"
#include "convert/read_values.h"

namespace cortiq::convert {
namespace {

using Range = Recipe::Range;

// tensors/*.npy of a folder, under the CMF names they replace.
class Overlay final : public Source {
 public:
  Overlay(const std::string& folder, FileSystem& files) {
    if (!files.exists(folder)) return;
    for (const std::string& name : files.list(folder)) {
      if (!name.ends_with(".npy")) continue;
      mappings_.push_back(files.map(join_path(folder, name)));
      views_.push_back(view_npy(mappings_.back()->bytes(), mappings_.back()->path()));
      SourceTensor tensor;
      tensor.name = name.substr(0, name.size() - 4);
      tensor.dtype = views_.back().type;
      tensor.shape = views_.back().shape;
      tensor.nbytes = views_.back().data.size();
      tensor.file = static_cast<uint32_t>(views_.size() - 1);
      tensors_.push_back(std::move(tensor));
    }
    std::sort(tensors_.begin(), tensors_.end(),
              [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
  }
  std::span<const SourceTensor> tensors() const noexcept override { return tensors_; }
  void read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const override {
    views_[tensor.file].read(first * tensor.cols(), count * tensor.cols(), out);
  }
  uint64_t bytes() const noexcept override { return 0; }
  const std::vector<std::string>& warnings() const noexcept override { return none_; }

 private:
  std::vector<std::shared_ptr<const MappedFile>> mappings_;
  std::vector<NpyView> views_;
  std::vector<SourceTensor> tensors_;
  std::vector<std::string> none_;
};

std::vector<Range> ranges_of(const std::vector<uint8_t>& keep) {
  std::vector<Range> out;
  for (uint64_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    if (!out.empty() && out.back().first + out.back().count == i) {
      ++out.back().count;
    } else {
      out.push_back({i, 1});
    }
  }
  return out;
}

// Ranges counted from the beginning of what `outer` selects, as ranges of the source.
std::vector<Range> inside(const std::vector<Range>& outer, const std::vector<Range>& inner) {
  if (outer.empty()) return inner;
  std::vector<Range> out;
  for (Range wanted : inner) {
    uint64_t begin = 0;
    for (const Range& range : outer) {
      const uint64_t first = std::max(wanted.first, begin),
                     last = std::min(wanted.first + wanted.count, begin + range.count);
      if (first < last) out.push_back({range.first + first - begin, last - first});
      begin += range.count;
    }
  }
  return out;
}

class Cut {
 public:
  Cut(const ConvertOptions& options, FileSystem& files, Mapping& mapping, Described& model, ThreadPool& pool)
      : folder_(options.defrag),
        files_(files),
        model_(model),
        pool_(pool),
        overlay_(std::make_shared<Overlay>(join_path(folder_, "tensors"), files)) {
    for (Mapped& one : mapping.tensors) by_name_[one.name] = &one;
    if (options.shard_max_gb > 0) fail(ErrorKind::Usage, "--defrag and --shard-max-gb exclude each other");
    if (std::find(model.layout.sparse.begin(), model.layout.sparse.end(), 1) != model.layout.sparse.end()) {
      fail(ErrorKind::Unsupported, "--defrag cuts dense layers only, and this model has mixtures of experts");
    }
  }

  std::shared_ptr<const Source> run() {
    const uint64_t width = model_.layout.dense_width, layers = model_.arch.num_layers;
    const std::vector<float> given = keep_file(layers, width);
    Json kept = Json::array();
    uint64_t most = 0, all = 0;
    for (uint64_t l = 0; l < layers; ++l) {
      for (const char* role : {"gate_proj", "up_proj", "down_proj"}) replace(l, role);
      std::vector<uint8_t> keep(width);
      if (given.empty()) {
        keep = alive(l);
      } else {
        for (uint64_t i = 0; i < width; ++i) keep[i] = given[l * width + i] != 0;
      }
      const std::vector<Range> ranges = ranges_of(keep);
      if (ranges.empty()) fail(ErrorKind::Parse, "{}: layer {} keeps no neuron", folder_, l);
      const auto count = static_cast<uint64_t>(std::count(keep.begin(), keep.end(), 1));
      cut(l, ranges, count);
      kept.push_back(count);
      most = std::max(most, count);
      all += count;
    }
    Json& provenance = model_.defrag = Json::object();
    provenance["source_skill"] = printable(folder_, 4096);
    provenance["pre_intermediate"] = width;
    provenance["post_intermediate_max"] = most;
    provenance["kept_per_layer"] = std::move(kept);
    const double pruned = 1 - static_cast<double>(all) / (static_cast<double>(layers) * static_cast<double>(width));
    provenance["pruned_ratio"] = std::round(pruned * 1e4) / 1e4;
    model_.arch.intermediate_size = most;
    return overlay_;
  }

 private:
  Mapped& tensor(uint64_t layer, const std::string& rest) {
    return *by_name_.at(fmt::format("model.layers.{}.mlp.{}", layer, rest));
  }

  std::vector<float> keep_file(uint64_t layers, uint64_t width) const {
    const std::string path = join_path(folder_, "ffn_keep.npy");
    if (!files_.exists(path)) return {};
    Npy keep = read_npy(path, files_);
    if (keep.shape != std::vector<uint64_t>{layers, width}) {
      fail(ErrorKind::Bounds, "{}: shape [{}, {}] expected (layers, neurons)", path, layers, width);
    }
    return std::move(keep.values);
  }

  void replace(uint64_t layer, const std::string& role) {
    Mapped& one = tensor(layer, role + ".weight");
    const SourceTensor* other = overlay_->find(one.name);
    if (!other) return;
    if (other->shape != one.shape) {
      fail(ErrorKind::Bounds, "{}: '{}' has shape {}", folder_, printable(one.name), other->shape_text());
    }
    one.recipe = {.source = overlay_.get(), .tensor = other};
    one.note = "from the overlay";
  }

  std::vector<uint8_t> alive(uint64_t layer) {
    const Mapped& down = tensor(layer, "down_proj.weight");
    const uint64_t rows = down.shape[0], cols = down.shape[1];
    std::vector<float> values(rows * cols);
    read_values(down.recipe, values, pool_);
    std::vector<uint8_t> out(cols, 0);
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t c = 0; c < cols; ++c) out[c] |= values[r * cols + c] != 0;
    }
    return out;
  }

  void cut(uint64_t layer, const std::vector<Range>& keep, uint64_t count) {
    for (const char* role : {"gate_proj", "up_proj"}) {
      Mapped& matrix = tensor(layer, std::string(role) + ".weight");
      matrix.recipe.rows = inside(matrix.recipe.rows, keep);
      matrix.shape[0] = count;
      note(matrix, count);
      const auto bias = by_name_.find(fmt::format("model.layers.{}.mlp.{}.bias", layer, role));
      if (bias == by_name_.end()) continue;
      bias->second->recipe.columns = inside(bias->second->recipe.columns, keep);
      bias->second->shape[0] = count;
    }
    Mapped& down = tensor(layer, "down_proj.weight");
    down.recipe.columns = inside(down.recipe.columns, keep);
    down.shape[1] = count;
    note(down, count);
  }

  static void note(Mapped& one, uint64_t count) {
    one.note += fmt::format("{}{} neurons kept", one.note.empty() ? "" : "; ", count);
  }

  std::string folder_;
  FileSystem& files_;
  Described& model_;
  ThreadPool& pool_;
  std::shared_ptr<Overlay> overlay_;
  std::unordered_map<std::string, Mapped*> by_name_;
};

}  // namespace

void cut_neurons(const ConvertOptions& options, FileSystem& files, Mapping& mapping, Described& model,
                 std::vector<std::shared_ptr<const Source>>& sources, ThreadPool& pool) {
  sources.push_back(Cut(options, files, mapping, model, pool).run());
}

}  // namespace cortiq::convert
