#include <fmt/format.h>

#include <algorithm>

#include "base/hash64.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cmf/file.h"

namespace cortiq::cli {
namespace {

// SHA-256 of the decoded f32 values, row-major, some rows at a time.
std::string values_digest(const cmf::File& file, const cmf::Tensor& tensor) {
  const codec::Codec& codec = codec::of(tensor.dtype);
  const uint64_t rows = tensor.shape.rows(), cols = tensor.shape.cols();
  const uint64_t step = std::max<uint64_t>(1, (uint64_t{1} << 20) / std::max<uint64_t>(1, cols));
  const Bytes payload = file.payload(tensor);
  std::vector<float> values;
  Sha256 hash;
  for (uint64_t first = 0; cols != 0 && first < rows; first += step) {
    const uint64_t count = std::min(step, rows - first);
    values.resize(count * cols);
    codec.decode(payload, tensor.shape, first, count, values.data());
    hash.update({reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4});
  }
  return hex(hash.finish());
}

}  // namespace

int run_tensors(const Arguments& arguments) {
  Common common;
  std::string path;
  bool digest = false;
  Flags flags("tensors", "List a file's tensors",
              {"cortiq tensors model.cmf", "cortiq tensors model.cmf --json --digest"});
  flags.positional("file", path, "CMF file, or one shard alone")
      .flag("--digest", digest, "also the SHA-256 of each payload and of its decoded values");
  common.declare_json(flags);
  common.declare_threads(flags);
  if (!flags.parse(arguments)) return 0;
  const auto file = cmf::File::open(path);
  const auto tensors = file->tensors();
  std::vector<std::string> payload(digest ? tensors.size() : 0), values(payload.size());
  if (digest) {
    make_pool(common.threads)->run(tensors.size(), [&](size_t i) {
      payload[i] = hex(sha256(file->payload(tensors[i])));
      values[i] = values_digest(*file, tensors[i]);
    });
  }
  Json rows = Json::array();
  Table table({"tensor", "dtype", "shape", "offset", "bytes", "hash"});
  for (size_t i = 0; i < tensors.size(); ++i) {
    const cmf::Tensor& one = tensors[i];
    if (!common.json) {
      table.add({printable(one.name), std::string(codec::name(one.dtype)), one.shape.text(), with_commas(one.offset),
                 with_commas(one.nbytes), hex64(one.hash)});
      continue;
    }
    Json shape = Json::array();
    for (uint8_t d = 0; d < one.shape.rank; ++d) shape.push_back(one.shape.dims[d]);
    Json row = {{"name", one.name},     {"dtype", codec::name(one.dtype)}, {"shape", shape}, {"off", one.offset},
                {"nbytes", one.nbytes}, {"hash", hex64(one.hash)}};
    if (digest) {
      row["payload_sha256"] = payload[i];
      row["values_sha256"] = values[i];
    }
    rows.push_back(std::move(row));
  }
  if (common.json) {
    Json document = {{"tensors", std::move(rows)}};
    add_warnings(document, {});
    print_json(document);
  } else {
    table.print(stdout);
    if (digest) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        fmt::print("{}  payload {}  values {}\n", printable(tensors[i].name), payload[i], values[i]);
      }
    }
  }
  return 0;
}

}  // namespace cortiq::cli
