#include <cstdint>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "convert/convert.h"
#include "support/memory_file_system.h"

// A GGUF file of any bytes: opened, planned, and every tensor read, or refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cortiq;
  static ThreadPool pool(1);
  try {
    MemoryFileSystem disk;
    disk.put("fuzz.gguf", {reinterpret_cast<const char*>(data), size});
    auto checkpoint = std::make_shared<convert::Checkpoint>(convert::open_checkpoint("fuzz.gguf", disk));
    const convert::Plan plan = convert::make_plan(checkpoint, {}, pool, disk);
    const convert::Source& source = checkpoint->weights();
    for (const convert::SourceTensor& tensor : source.tensors()) {
      std::vector<float> values(tensor.elements());
      source.read_rows(tensor, 0, tensor.rows(), values.data());
      source.encoded(tensor, "q4_tiled");
    }
  } catch (const Error&) {
  }
  return 0;
}
