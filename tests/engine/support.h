#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/progress.h"
#include "convert/convert.h"
#include "convert/safetensors.h"
#include "engine/generate.h"
#include "engine/inspect.h"
#include "engine/model.h"

namespace cortiq::engine {

inline std::filesystem::path oracle(const std::string& name = "") {
  return std::filesystem::path(CORTIQ_TEST_DATA) / "engine/oracle" / name;
}

inline Json read_json(const std::filesystem::path& path) {
  return Json::parse(FileSystem::real().read_all(path.string()));
}

inline std::vector<uint32_t> ids_of(const Json& json) { return json.get<std::vector<uint32_t>>(); }

inline ThreadPool& pool() {
  static ThreadPool threads(2);
  return threads;
}

/// A folder that lasts as long as the test program.
inline const std::filesystem::path& scratch() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::string name = (std::filesystem::temp_directory_path() / "cortiq-engine-XXXXXX").string();
      path = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

/// Converts a case's checkpoint, with masks if given, and returns the path of the file.
inline std::string convert_case(const std::filesystem::path& source, const std::string& quant = "f32",
                                const cmf::Masks* masks = nullptr) {
  static int number = 0;
  convert::ConvertOptions options;
  options.quant = quant;
  convert::Plan plan = convert::make_plan(source.string(), options, pool());
  if (masks != nullptr) plan.contents.masks = cmf::write_masks(*masks, plan.arch);
  const std::string path = (scratch() / (std::to_string(++number) + ".cmf")).string();
  convert::execute(plan, path, pool(), Progress::none(), Cancellation());
  return path;
}

/// The model of a case, loaded once for each dtype.
inline std::shared_ptr<const Model> model_of(const std::string& name, const std::string& quant = "f32") {
  static std::map<std::pair<std::string, std::string>, std::shared_ptr<const Model>> models;
  auto& model = models[{name, quant}];
  if (!model) model = Model::load(convert_case(oracle(name), quant));
  return model;
}

struct Values {
  std::vector<uint64_t> shape;
  std::vector<float> data;
};

/// All tensors of a safetensors file.
inline std::map<std::string, Values> read_values(const std::filesystem::path& path) {
  const auto source = convert::open_safetensors_file(path.string());
  std::map<std::string, Values> out;
  for (const convert::SourceTensor& tensor : source->tensors()) {
    Values& values = out[tensor.name];
    values.shape = tensor.shape;
    values.data.resize(tensor.elements());
    source->read_rows(tensor, 0, tensor.rows(), values.data.data());
  }
  return out;
}

inline double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

inline DecoderOptions exact(uint64_t max_rows = 512) {
  DecoderOptions options;
  options.mode = kernels::Mode::Exact;
  options.max_rows = max_rows;
  return options;
}

inline std::vector<float> logits_of(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                                    std::span<const uint32_t> ids, uint64_t chunk = 0, uint64_t last = 0) {
  InspectOptions options;
  options.chunk = chunk;
  options.last = last;
  return inspect(decoder, binding, ids, options).front().values;
}

inline Generated greedy(Decoder& decoder, const std::shared_ptr<const Binding>& binding, std::vector<uint32_t> prompt,
                        uint64_t count, MtpChoice mtp = MtpChoice::Off, PrefixCache* prefixes = nullptr) {
  GenerateOptions options;
  options.max_tokens = count;
  options.sampler = SamplerOptions::greedy();
  options.ignore_eos = true;
  return generate(decoder, std::move(prompt), binding, options, Cancellation(), nullptr, prefixes, mtp);
}

}  // namespace cortiq::engine
