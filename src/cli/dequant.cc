#include <fmt/format.h>

#include "base/file_system.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cmf/file.h"
#include "convert/npy.h"
#include "convert/safetensors_writer.h"

namespace cortiq::cli {

int run_dequant(const Arguments& arguments) {
  std::string path, tensor_name, output;
  Flags flags("dequant", "One tensor's values as f32",
              {"cortiq dequant model.cmf model.layers.0.mlp.up_proj.weight -o up.npy",
               "cortiq dequant model.cmf model.norm.weight -o norm.safetensors"});
  flags.positional("file", path, "CMF file, or one shard alone")
      .positional("tensor", tensor_name, "name, as cortiq tensors lists it")
      .option("-o,--output", output, "file to write: .npy or .safetensors");
  if (!flags.parse(arguments)) return 0;
  const bool npy = output.ends_with(".npy");
  if (!npy && !output.ends_with(".safetensors"))
    fail(ErrorKind::Usage, "-o '{}': name a .npy or .safetensors file", output);
  check_output(output, {path});
  const auto file = cmf::File::open(path);
  const cmf::Tensor* tensor = file->find(tensor_name);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const auto& one : file->tensors()) names.emplace_back(one.name);
    const std::string near = nearest(tensor_name, names);
    fail(ErrorKind::Usage, "{}: no tensor '{}'{}", path, printable(tensor_name),
         near.empty() ? "" : "; did you mean '" + printable(near) + "'?");
  }
  const std::vector<uint64_t> shape(tensor->shape.dims.begin(), tensor->shape.dims.begin() + tensor->shape.rank);
  const uint64_t rows = tensor->shape.rows(), cols = tensor->shape.cols();
  const uint64_t step = std::max<uint64_t>(1, (uint64_t{1} << 22) / std::max<uint64_t>(1, cols));
  const Bytes payload = file->payload(*tensor);
  const codec::Codec& codec = codec::of(tensor->dtype);
  std::vector<float> values;
  if (npy) {
    values.resize(rows * cols);
    codec.decode(payload, tensor->shape, 0, rows, values.data());
    convert::write_npy(output, shape, values);
  } else {
    convert::SafetensorsWriter writer(FileSystem::real(), output, {{tensor_name, shape, "F32"}});
    for (uint64_t first = 0; first < rows; first += step) {
      const uint64_t count = std::min(step, rows - first);
      values.resize(count * cols);
      codec.decode(payload, tensor->shape, first, count, values.data());
      writer.append(values);
    }
    writer.finish();
  }
  fmt::print("{}: {} {} {}, {} values\n", output, printable(tensor_name), codec.name(), tensor->shape.text(),
             with_commas(rows * cols));
  return 0;
}

}  // namespace cortiq::cli
