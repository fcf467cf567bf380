// Opening, verifying and decoding a file of any bytes: an Error or a valid result, nothing else.
#include <cstdint>
#include <memory>
#include <vector>

#include "cmf/diff.h"
#include "cmf/sparse_index.h"
#include "cmf/verify.h"
#include "support/memory_file_system.h"

namespace {

constexpr uint64_t kMostValues = uint64_t{1} << 20;  // decoded per tensor: a u8 dimension may promise more than memory

void decode_all(const cortiq::cmf::FileSet& set) {
  for (const auto& tensor : set.tensors()) {
    const uint64_t cols = tensor.shape.cols();
    if (tensor.nbytes == 0 || cols == 0 || cols > kMostValues) continue;
    std::vector<float> row(cols);
    const uint64_t rows = tensor.shape.rows();
    for (uint64_t r = 0; r < rows && r < 64; ++r) cortiq::cmf::decode_rows(set, tensor, r, 1, row.data());
    cortiq::cmf::decode_rows(set, tensor, rows - 1, 1, row.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static cortiq::ThreadPool pool(1);
  cortiq::MemoryFileSystem files;
  files.put("fuzz.cmf", std::string(reinterpret_cast<const char*>(data), size));
  try {
    const auto set = cortiq::cmf::FileSet::open("fuzz.cmf", files);
    decode_all(*set);
    if (!set->first().index_bytes().empty()) cortiq::cmf::parse_sparse_index(set->first().index_bytes(), "fuzz.cmf");
    cortiq::cmf::diff(*set, *set, pool);
  } catch (const cortiq::Error&) {
  }
  cortiq::cmf::verify("fuzz.cmf", {}, pool, files);
  return 0;
}
