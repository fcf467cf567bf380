#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "convert/gguf/gguf.h"

namespace cortiq::convert::gguf {
namespace {

// Where row (or element) `index` of the Hugging Face order stands in the file: halves (i, i + d/2) of a head were
// interleaved to pairs (2i, 2i + 1).
uint64_t interleaved(uint64_t index, uint64_t head_dim) noexcept {
  const uint64_t head = index / head_dim, k = index % head_dim, half = head_dim / 2;
  return head * head_dim + 2 * (k % half) + k / half;
}

// Q4_0 pairs element j with j + 16 in a byte, CMF's q4 2k with 2k + 1 (§3.2).
void repair_nibbles(const uint8_t* from, uint8_t* to) noexcept {
  uint8_t q[32];
  for (int j = 0; j < 16; ++j) {
    q[j] = from[j] & 15;
    q[j + 16] = from[j] >> 4;
  }
  for (int k = 0; k < 16; ++k) to[k] = static_cast<uint8_t>(q[2 * k] | q[2 * k + 1] << 4);
}

}  // namespace

GgufSource::GgufSource(std::vector<File> files, std::vector<Stored> stored)
    : files_(std::move(files)), stored_(std::move(stored)) {
  std::sort(stored_.begin(), stored_.end(),
            [](const Stored& a, const Stored& b) { return a.tensor.name < b.tensor.name; });
  for (const Stored& one : stored_) tensors_.push_back(one.tensor);
}

const GgufSource::Stored& GgufSource::stored(const SourceTensor& tensor) const {
  return stored_[static_cast<size_t>(find(tensor.name) - tensors_.data())];
}

const uint8_t* GgufSource::row(const Stored& one, uint64_t index) const {
  const uint64_t length = one.tensor.cols() / one.type->block * one.type->bytes;
  return files_[one.tensor.file].mapping().bytes().slice(one.tensor.offset + index * length, length, "row").data();
}

void GgufSource::read_row(const Stored& one, uint64_t index, float* out) const {
  const uint8_t* block = row(one, index);
  for (uint64_t c = 0; c < one.tensor.cols(); c += one.type->block, block += one.type->bytes) {
    one.type->decode(block, out + c);
  }
}

void GgufSource::read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const {
  const Stored& one = stored(tensor);
  const uint64_t cols = tensor.cols();
  for (uint64_t r = 0; r < count; ++r) {
    const bool moved = one.heads != 0 && tensor.shape.size() > 1;
    read_row(one, moved ? interleaved(first + r, tensor.rows() / one.heads) : first + r, out + r * cols);
  }
  if (one.heads != 0 && tensor.shape.size() == 1) {
    const std::vector<float> as_stored(out, out + count * cols);
    for (uint64_t i = 0; i < as_stored.size(); ++i) out[i] = as_stored[interleaved(i, cols / one.heads)];
  }
  if (one.one_plus) {
    for (uint64_t i = 0; i < count * cols; ++i) out[i] -= 1;
  }
  // As in safetensors.cc: pages that were read stop counting as this process' memory.
  const uint64_t length = cols / one.type->block * one.type->bytes;
  files_[tensor.file].mapping().advise(tensor.offset + first * length, count * length, MappedFile::Advice::DontNeed);
}

std::optional<std::vector<uint8_t>> GgufSource::encoded(const SourceTensor& tensor, std::string_view dtype) const {
  const Stored& one = stored(tensor);
  const bool tiled = dtype == "q4_tiled";
  if (one.type->name != "Q4_0" || tensor.shape.size() != 2 || (!tiled && dtype != "q4_block")) return std::nullopt;
  const uint64_t rows = tensor.rows(), groups = tensor.cols() / 32, all = rows * groups;
  std::vector<uint8_t> out(all * 18);
  for (uint64_t r = 0; r < rows; ++r) {
    const uint8_t* block = row(one, one.heads != 0 ? interleaved(r, rows / one.heads) : r);
    for (uint64_t g = r * groups; g < (r + 1) * groups; ++g, block += one.type->bytes) {
      if ((block[1] & 0x7C) == 0x7C) return std::nullopt;  // a scale that is not finite: refused like any such value
      std::memcpy(out.data() + (tiled ? 18 * g : 16 * all + 2 * g), block, 2);
      repair_nibbles(block + 2, out.data() + (tiled ? 18 * g + 2 : 16 * g));
    }
  }
  return out;
}

void GgufSource::will_need(const SourceTensor& tensor) const noexcept {
  files_[tensor.file].mapping().advise(tensor.offset, tensor.nbytes, MappedFile::Advice::WillNeed);
}

uint64_t GgufSource::bytes() const noexcept {
  uint64_t sum = 0;
  for (const File& file : files_) sum += file.mapping().bytes().size();
  return sum;
}

}  // namespace cortiq::convert::gguf
