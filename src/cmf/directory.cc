#include "cmf/directory.h"

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "base/utf8.h"
#include "cmf/envelope.h"

namespace cortiq::cmf {
namespace {

// §3. A record: name_off u32, name_len u16, dtype u8, ndim u8, shape u32[6], off u64, nbytes u64, hash u64.
constexpr uint64_t kHeadBytes = 16, kRecordBytes = 56;
constexpr uint64_t kNameOffAt = 0, kNameLenAt = 4, kDtypeAt = 6, kRankAt = 7, kShapeAt = 8, kOffAt = 32, kNbytesAt = 40,
                   kHashAt = 48;

// Names may share bytes of the pool, so a small section could ask for an hour of hashing. No honest file comes near.
constexpr uint64_t kNamesTogether = uint64_t{4} << 30;

constexpr uint64_t kMaxTensors = std::numeric_limits<uint32_t>::max() - 1;

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t mix(uint64_t a, uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Seeded by the process, so that nobody can prepare names that all fall into one slot.
uint64_t name_hash(std::string_view name) noexcept {
  static const uint64_t seed = [] {
    std::random_device random;
    return (uint64_t{random()} << 32 | random()) | 1;
  }();
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t hash = seed ^ name.size();
  size_t at = 0;
  for (; at + 8 <= name.size(); at += 8) {
    hash = mix(hash ^ load<uint64_t>(reinterpret_cast<const uint8_t*>(name.data()) + at), kOdd ^ seed);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, name.data() + at, name.size() - at);
  return mix(hash ^ rest, kOdd ^ seed);
}

}  // namespace

void check_name(std::string_view name, std::string_view what) {
  if (name.empty()) fail(ErrorKind::Parse, "{}: a tensor's name is empty", what);
  if (!valid_utf8(name)) fail(ErrorKind::Parse, "{}: the tensor name '{}' is not UTF-8", what, printable(name));
  if (name.find('\0') != name.npos) {
    fail(ErrorKind::Parse, "{}: the tensor name '{}' contains a NUL", what, printable(name));
  }
}

std::vector<Tensor> parse_directory(Bytes section, std::string_view what) {
  if (section.size() < kHeadBytes) {
    fail(ErrorKind::Bounds, "{}: the directory has {} bytes, its head alone needs {}", what, section.size(),
         kHeadBytes);
  }
  const auto count = section.read<uint64_t>(0), pool_off = section.read<uint64_t>(8);
  if (count > (section.size() - kHeadBytes) / kRecordBytes || count > kMaxTensors) {
    fail(ErrorKind::Bounds, "{}: the directory claims {} tensors, its {} bytes can hold {}", what, count,
         section.size(), (section.size() - kHeadBytes) / kRecordBytes);
  }
  if (pool_off < kHeadBytes + count * kRecordBytes || pool_off > section.size()) {
    fail(ErrorKind::Bounds, "{}: the directory's names begin at {}, not between its records' end {} and its own end {}",
         what, pool_off, kHeadBytes + count * kRecordBytes, section.size());
  }
  const Bytes pool = section.slice(pool_off, section.size() - pool_off, "name pool");
  std::vector<Tensor> out(count);
  uint64_t names_together = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t* record = section.data() + kHeadBytes + i * kRecordBytes;
    const uint64_t name_off = load<uint32_t>(record + kNameOffAt), name_len = load<uint16_t>(record + kNameLenAt);
    if (!pool.holds(name_off, name_len)) {
      fail(ErrorKind::Bounds, "{}: the name of tensor record {} ({} bytes at {}) lies outside the pool of {} bytes",
           what, i, name_len, name_off, pool.size());
    }
    Tensor& tensor = out[i];
    tensor.name = pool.text().substr(name_off, name_len);
    names_together += name_len;
    if (names_together > kNamesTogether) {
      fail(ErrorKind::Bounds, "{}: tensor names of more than {} bytes together", what, kNamesTogether);
    }
    if (name_len == 0 || !valid_utf8(tensor.name) || std::memchr(tensor.name.data(), 0, name_len)) {
      check_name(tensor.name, fmt::format("{}: tensor record {}", what, i));
    }
    const uint8_t dtype = record[kDtypeAt], rank = record[kRankAt];
    const codec::Codec* codec = codec::find(dtype);
    if (!codec) {
      fail(ErrorKind::Parse, "{}: tensor '{}' has dtype {}, which is unknown or reserved", what, printable(tensor.name),
           dtype);
    }
    tensor.dtype = codec->dtype();
    if (rank > codec::Shape::kMaxRank) {
      fail(ErrorKind::Parse, "{}: tensor '{}' has {} dimensions, {} are allowed", what, printable(tensor.name), rank,
           codec::Shape::kMaxRank);
    }
    tensor.shape.rank = rank;
    for (uint8_t d = 0; d < rank; ++d) tensor.shape.dims[d] = load<uint32_t>(record + kShapeAt + 4 * d);
    tensor.offset = load<uint64_t>(record + kOffAt);
    tensor.nbytes = load<uint64_t>(record + kNbytesAt);
    tensor.hash = load<uint64_t>(record + kHashAt);
  }
  return out;
}

std::vector<uint8_t> write_directory(std::span<const Tensor> tensors) {
  if (tensors.size() > kMaxTensors)
    fail(ErrorKind::Bounds, "{} tensors are more than the {} a file may have", tensors.size(), kMaxTensors);
  uint64_t pool_bytes = 0;
  for (const Tensor& tensor : tensors) {
    check_name(tensor.name, "directory");
    if (tensor.name.size() > std::numeric_limits<uint16_t>::max()) {
      fail(ErrorKind::Bounds, "a tensor name of {} bytes ('{}'): 65535 are allowed", tensor.name.size(),
           printable(tensor.name, 60));
    }
    pool_bytes += tensor.name.size();
  }
  if (pool_bytes > std::numeric_limits<uint32_t>::max()) {
    fail(ErrorKind::Bounds, "tensor names of {} bytes together: offsets into the pool are 32 bits wide", pool_bytes);
  }
  const uint64_t pool_off = kHeadBytes + tensors.size() * kRecordBytes;
  std::vector<uint8_t> out(pool_off + pool_bytes);
  const auto put = [&](uint64_t at, auto value) { std::memcpy(out.data() + at, &value, sizeof value); };
  put(0, uint64_t{tensors.size()});
  put(8, pool_off);
  uint32_t name_off = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const uint64_t record = kHeadBytes + i * kRecordBytes;
    put(record + kNameOffAt, name_off);
    put(record + kNameLenAt, static_cast<uint16_t>(tensor.name.size()));
    put(record + kDtypeAt, static_cast<uint8_t>(tensor.dtype));
    put(record + kRankAt, tensor.shape.rank);
    for (uint8_t d = 0; d < tensor.shape.rank; ++d) put(record + kShapeAt + 4 * d, tensor.shape.dims[d]);
    put(record + kOffAt, tensor.offset);
    put(record + kNbytesAt, tensor.nbytes);
    put(record + kHashAt, tensor.hash);
    std::memcpy(out.data() + pool_off + name_off, tensor.name.data(), tensor.name.size());
    name_off += static_cast<uint32_t>(tensor.name.size());
  }
  return out;
}

NameIndex::NameIndex(std::span<const Tensor> tensors, const std::function<void(size_t, size_t)>& duplicate) {
  if (tensors.size() > kMaxTensors)
    fail(ErrorKind::Bounds, "{} tensors in one set: {} are allowed", tensors.size(), kMaxTensors);
  slots_.resize(std::bit_ceil(tensors.size() * 2 + 1));
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t at = name_hash(tensors[i].name) & mask;
    for (; slots_[at] != 0; at = (at + 1) & mask) {
      if (tensors[slots_[at] - 1].name == tensors[i].name) duplicate(slots_[at] - 1, i);
    }
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

const Tensor* NameIndex::find(std::span<const Tensor> tensors, std::string_view name) const noexcept {
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  for (size_t at = name_hash(name) & mask; slots_[at] != 0; at = (at + 1) & mask) {
    const Tensor& tensor = tensors[slots_[at] - 1];
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

}  // namespace cortiq::cmf
