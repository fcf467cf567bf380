#include "base/error.h"
#include "convert/safetensors.h"
#include "support/memory_file_system.h"

// The header of a safetensors file: accepted files can be read everywhere, others are refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cortiq::MemoryFileSystem files;
  files.put("model.safetensors", std::string(reinterpret_cast<const char*>(data), size));
  try {
    const auto source = cortiq::convert::open_safetensors_file("model.safetensors", files);
    std::vector<float> row;
    for (const auto& tensor : source->tensors()) {
      if (!source->readable(tensor) || tensor.rows() == 0) continue;
      row.resize(tensor.cols());
      source->read_rows(tensor, 0, 1, row.data());
      source->read_rows(tensor, tensor.rows() - 1, 1, row.data());
    }
  } catch (const cortiq::Error&) {
  }
  return 0;
}
