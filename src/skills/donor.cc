#include "skills/donor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "cmf/skill_tensors.h"
#include "convert/convert.h"
#include "convert/dtypes.h"
#include "convert/lora.h"
#include "convert/safetensors.h"
#include "engine/weights.h"
#include "skills/rewrite.h"

namespace cortiq::skills {
namespace {

using Values = std::vector<float>;

// A checkpoint or CMF file seen as named f32 tensors in the backbone's names.
struct Weights {
  struct One {
    codec::Shape shape;
    std::function<Values()> read;
    const cmf::Tensor* stored = nullptr;  // in a CMF file
  };
  std::map<std::string, One> tensors;
  std::shared_ptr<const cmf::FileSet> set;
  std::shared_ptr<const convert::Plan> plan;
};

Weights open_weights(const std::string& path, ThreadPool& pool) {
  Weights weights;
  if (path.ends_with(".cmf")) {
    weights.set = cmf::FileSet::open(path);
    for (const cmf::Tensor& tensor : weights.set->tensors()) {
      if (tensor.name.starts_with("skill.")) continue;
      const cmf::FileSet* set = weights.set.get();
      weights.tensors[std::string(tensor.name)] = {
          tensor.shape, [set, &tensor] { return engine::decode_all(*set, tensor); }, &tensor};
    }
    return weights;
  }
  convert::ConvertOptions options;
  options.quant = "f32";
  weights.plan = std::make_shared<const convert::Plan>(convert::make_plan(path, options, pool));
  for (const convert::PlannedTensor& tensor : weights.plan->tensors) {
    weights.tensors[tensor.name] = {tensor.shape, [&tensor, &pool] { return convert::read_values(tensor, pool); },
                                    nullptr};
  }
  return weights;
}

double relative_change(const Values& now, const Values& before) {
  double change = 0, size = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double d = static_cast<double>(now[i]) - static_cast<double>(before[i]);
    change += d * d;
    size += static_cast<double>(before[i]) * static_cast<double>(before[i]);
  }
  return std::sqrt(change / std::max(size, 1e-300));
}

const cmf::Tensor& twin_of(const cmf::FileSet& backbone, const std::string& name, const codec::Shape& shape,
                           const std::string& from) {
  const cmf::Tensor* twin = backbone.find(name);
  if (twin == nullptr) {
    const std::string near = cmf::nearest_name(backbone.tensors(), name);
    fail(ErrorKind::Parse, "{}: tensor '{}' replaces nothing in {}{}", from, printable(name), backbone.first().path(),
         near.empty() ? "" : "; the nearest name is '" + printable(near) + "'");
  }
  if (!(twin->shape == shape)) {
    fail(ErrorKind::Parse,
         "{}: tensor '{}' is {}, the backbone's is {}; a skill replaces whole tensors of the same shape", from,
         printable(name), shape.text(), twin->shape.text());
  }
  return *twin;
}

std::vector<uint8_t> encode(const std::string& name, codec::Dtype dtype, const codec::Shape& shape,
                            const Values& values, ThreadPool& pool) {
  return with_context("tensor '" + printable(name) + "'",
                      [&] { return codec::of(dtype).encode(values, shape, {}, pool); });
}

Replacement encoded(const cmf::Tensor& twin, const Values& values, const std::optional<codec::Quant>& quant,
                    ThreadPool& pool) {
  Replacement one{std::string(twin.name), twin.dtype, twin.shape, {}, {}};
  if (quant && !convert::kept_in_float(one.name)) {
    const codec::Choice choice = codec::choose(*quant, twin.shape);
    one.dtype = choice.dtype;
    one.note = choice.reason;
  }
  one.payload = encode(one.name, one.dtype, one.shape, values, pool);
  return one;
}

// A tensor of the donor held against the backbone's.
struct Comparison {
  const cmf::Tensor* twin;
  bool same_bytes = false;
  double change = 0;
};

}  // namespace

ReplacementSet from_donor(const cmf::FileSet& backbone, const std::string& donor_path, const DonorOptions& options,
                          ThreadPool& pool, Progress& progress, const Cancellation& cancel) {
  const Weights donor = open_weights(donor_path, pool);
  std::optional<Weights> base;
  if (!options.base.empty()) base = open_weights(options.base, pool);
  ReplacementSet set;
  std::map<std::string, Comparison> compared;
  progress.begin("comparing", donor.tensors.size());
  std::map<codec::Dtype, bool> reproduced;  // the encoder gives the backbone's own bytes for something unchanged
  for (const auto& [name, one] : donor.tensors) {
    cancel.check();
    progress.item(name);
    Comparison result{&twin_of(backbone, name, one.shape, donor_path)};
    if (one.stored != nullptr && one.stored->dtype == result.twin->dtype && one.stored->hash == result.twin->hash) {
      result.same_bytes = true;
    } else {
      const Values values = one.read();
      if (base) {
        const auto before = base->tensors.find(name);
        if (before == base->tensors.end() || !(before->second.shape == one.shape)) {
          fail(ErrorKind::Parse, "{}: tensor '{}' is missing or has another shape than the donor's", options.base,
               printable(name));
        }
        const Values old = before->second.read();
        result.same_bytes = old == values;
        result.change = relative_change(values, old);
      } else {
        const std::vector<uint8_t> payload = encode(name, result.twin->dtype, result.twin->shape, values, pool);
        const Bytes have = backbone.payload(*result.twin);
        result.same_bytes = payload.size() == have.size() && std::equal(payload.begin(), payload.end(), have.data());
        if (!result.same_bytes) {
          Values again(values.size());
          codec::of(result.twin->dtype)
              .decode(Bytes(payload.data(), payload.size()), one.shape, 0, one.shape.rows(), again.data());
          result.change = relative_change(again, engine::decode_all(backbone, *result.twin));
        }
      }
    }
    reproduced[result.twin->dtype] |= result.same_bytes;
    compared.emplace(name, result);
    progress.advance(1);
  }
  for (const auto& [name, result] : compared) {
    if (result.same_bytes) continue;
    const bool by_bytes = base.has_value() || reproduced[result.twin->dtype];
    const double limit = options.min_delta.value_or(by_bytes ? 0 : 1e-3);
    if (limit > 0 && result.change < limit) continue;
    cancel.check();
    set.tensors.push_back(encoded(*result.twin, donor.tensors.at(name).read(), options.quant, pool));
  }
  progress.end();
  if (set.tensors.empty())
    fail(ErrorKind::Usage, "{}: differs in nothing from the backbone {}; there is no skill in it", donor_path,
         backbone.first().path());
  return set;
}

ReplacementSet from_safetensors(const cmf::FileSet& backbone, const std::string& path,
                                const std::optional<codec::Quant>& quant, ThreadPool& pool, Progress& progress,
                                const Cancellation& cancel) {
  const auto source = convert::open_safetensors_file(path);
  ReplacementSet set;
  progress.begin("encoding", source->bytes());
  for (const convert::SourceTensor& tensor : source->tensors()) {
    cancel.check();
    progress.item(tensor.name);
    if (tensor.shape.size() > codec::Shape::kMaxRank)
      fail(ErrorKind::Parse, "{}: tensor '{}' has {} dimensions", path, printable(tensor.name), tensor.shape.size());
    codec::Shape shape;
    for (const uint64_t size : tensor.shape) {
      if (size > UINT32_MAX)
        fail(ErrorKind::Bounds, "{}: tensor '{}' has a dimension of {}", path, printable(tensor.name), size);
      shape.dims[shape.rank++] = static_cast<uint32_t>(size);
    }
    const cmf::Tensor& twin = twin_of(backbone, tensor.name, shape, path);
    Values values(tensor.elements());
    source->read_rows(tensor, 0, tensor.rows(), values.data());
    set.tensors.push_back(encoded(twin, values, quant, pool));
    progress.advance(tensor.nbytes);
  }
  progress.end();
  if (set.tensors.empty()) fail(ErrorKind::Usage, "{}: holds no tensors", path);
  return set;
}

ReplacementSet from_lora(const cmf::FileSet& backbone, const std::string& adapter,
                         const std::optional<codec::Quant>& quant, const std::string& base_path, ThreadPool& pool,
                         Progress& progress, const Cancellation& cancel) {
  const convert::Lora lora = convert::Lora::open(adapter);
  std::optional<Weights> base;
  if (!base_path.empty()) base = open_weights(base_path, pool);
  ReplacementSet set;
  progress.begin("merging", lora.targets().size());
  for (const convert::Lora::Target& target : lora.targets()) {
    cancel.check();
    progress.item(target.name);
    const cmf::Tensor* twin = backbone.find(target.name);
    if (twin == nullptr) {
      const std::string near = cmf::nearest_name(backbone.tensors(), target.name);
      fail(ErrorKind::Parse, "{}: adapts '{}', which {} lacks{}", adapter, printable(target.name),
           backbone.first().path(), near.empty() ? "" : "; the nearest name is '" + printable(near) + "'");
    }
    Values values;
    if (base) {
      const auto found = base->tensors.find(target.name);
      if (found == base->tensors.end()) fail(ErrorKind::Parse, "{}: lacks '{}'", base_path, printable(target.name));
      values = found->second.read();
    } else {
      values = engine::decode_all(backbone, *twin);
    }
    lora.merge(target, values, twin->shape.rows(), twin->shape.cols(), pool);
    set.tensors.push_back(encoded(*twin, values, quant, pool));
    progress.advance(1);
  }
  progress.end();
  const bool lossy = std::any_of(set.tensors.begin(), set.tensors.end(), [](const auto& one) {
    return one.dtype != codec::Dtype::F32 && one.dtype != codec::Dtype::F16 && one.dtype != codec::Dtype::BF16;
  });
  if (lossy && !base)
    set.warnings.push_back(
        "the adapter was merged into quantised weights; --base DIR with the original checkpoint is more exact");
  return set;
}

}  // namespace cortiq::skills
