#include "convert/gguf/file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "base/utf8.h"

namespace cortiq::convert::gguf {
namespace {

constexpr uint64_t kLeastKey = 13, kLeastTensor = 32, kLeastString = 8;
constexpr uint64_t kMaxKey = 65535, kMaxTensorName = 1024;
constexpr uint32_t kMaxRank = 4;

constexpr std::string_view kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};

uint64_t size_of(ValueType type) noexcept {
  switch (type) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::Bool:
      return 1;
    case ValueType::U16:
    case ValueType::I16:
      return 2;
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::F32:
      return 4;
    case ValueType::U64:
    case ValueType::I64:
    case ValueType::F64:
      return 8;
    case ValueType::String:
    case ValueType::Array:
      break;
  }
  return 0;
}

// Element i as an integer; nothing for a type that holds none, or a negative one.
std::optional<uint64_t> integer(const Value& value, uint64_t i) {
  const auto get = [&]<class T>(T) -> std::optional<uint64_t> {
    const T number = value.bytes.read<T>(i * sizeof(T));
    if constexpr (std::is_signed_v<T>) {
      if (number < 0) return std::nullopt;
    }
    return static_cast<uint64_t>(number);
  };
  switch (value.type) {
    case ValueType::U8:
      return get(uint8_t{});
    case ValueType::I8:
      return get(int8_t{});
    case ValueType::U16:
      return get(uint16_t{});
    case ValueType::I16:
      return get(int16_t{});
    case ValueType::U32:
      return get(uint32_t{});
    case ValueType::I32:
      return get(int32_t{});
    case ValueType::U64:
      return get(uint64_t{});
    case ValueType::I64:
      return get(int64_t{});
    default:
      return std::nullopt;
  }
}

std::optional<double> real(const Value& value, uint64_t i) {
  double number = 0;
  if (value.type == ValueType::F32) {
    number = static_cast<double>(value.bytes.read<float>(4 * i));
  } else if (value.type == ValueType::F64) {
    number = value.bytes.read<double>(8 * i);
  } else if (const auto whole = integer(value, i)) {
    number = static_cast<double>(*whole);
  } else {
    return std::nullopt;
  }
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

}  // namespace

class File::Parser {
 public:
  Parser(File& file, Bytes bytes) : file_(file), bytes_(bytes) {}

  void run() {
    fixed_header();
    for (uint64_t i = 0; i < keys_; ++i) metadata();
    for (uint64_t i = 0; i < tensors_; ++i) tensor();
    place_tensors();
  }

 private:
  template <class T>
  T take(std::string_view what) {
    const T value = bytes_.read<T>(at_, what);
    at_ += sizeof(T);
    return value;
  }

  Bytes take_bytes(uint64_t length, std::string_view what) {
    const Bytes part = bytes_.slice(at_, length, what);
    at_ += length;
    return part;
  }

  std::string_view text(std::string_view what) {
    const uint64_t length = take<uint64_t>(what);
    const std::string_view found = take_bytes(length, what).text();
    if (!valid_utf8(found)) fail(ErrorKind::Parse, "the {} '{}' is not UTF-8", what, printable(found, 60));
    return found;
  }

  void require_room(uint64_t count, uint64_t least, std::string_view what) const {
    if (count > (bytes_.size() - at_) / least) {
      fail(ErrorKind::Bounds, "{} {} cannot fit the {} bytes that follow", count, what, bytes_.size() - at_);
    }
  }

  void fixed_header() {
    if (bytes_.size() < 4) fail(ErrorKind::Bounds, "{} bytes: shorter than the magic of a GGUF file", bytes_.size());
    if (take_bytes(4, "magic").text() != "GGUF")
      fail(ErrorKind::InvalidMagic, "no GGUF file: it does not begin with GGUF");
    const uint32_t version = take<uint32_t>("version");
    if (version == 0x03000000 || version == 0x02000000) {
      fail(ErrorKind::Unsupported, "a big-endian GGUF file; convert it with the tool that wrote it");
    }
    if (version != 2 && version != 3) fail(ErrorKind::Unsupported, "GGUF version {}; 2 and 3 can be read", version);
    tensors_ = take<uint64_t>("tensor count");
    keys_ = take<uint64_t>("metadata count");
    require_room(keys_, kLeastKey, "metadata records");
    require_room(tensors_, kLeastTensor, "tensor records");
  }

  ValueType value_type(std::string_view key) {
    const uint32_t id = take<uint32_t>("value type");
    if (id >= std::size(kTypeNames))
      fail(ErrorKind::Parse, "key '{}': value type {} does not exist", printable(key, 80), id);
    return static_cast<ValueType>(id);
  }

  void metadata() {
    const std::string_view key = text("metadata key");
    if (key.empty() || key.size() > kMaxKey) fail(ErrorKind::Parse, "a metadata key of {} bytes", key.size());
    Value value;
    value.type = value_type(key);
    if (value.type == ValueType::Array) {
      value.array = true;
      value.type = value_type(key);
      if (value.type == ValueType::Array) {
        fail(ErrorKind::Unsupported, "key '{}' is an array of arrays", printable(key, 80));
      }
      value.count = take<uint64_t>("array length");
    }
    if (value.type == ValueType::String) {
      require_room(value.count, kLeastString, "strings");
      for (uint64_t i = 0; i < value.count; ++i) value.strings.push_back(text("string"));
    } else {
      value.bytes = take_bytes(checked_multiply(value.count, size_of(value.type), "array"), key_name(key));
    }
    if (value.type == ValueType::Bool) {
      const auto bytes = value.bytes.span();
      if (std::any_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b > 1; })) {
        fail(ErrorKind::Parse, "key '{}': a bool that is neither 0 nor 1", printable(key, 80));
      }
    }
    if (!file_.metadata_.emplace(key, std::move(value)).second) {
      fail(ErrorKind::Parse, "the key '{}' stands twice", printable(key, 80));
    }
    file_.keys_.push_back(key);
  }

  static std::string_view key_name(std::string_view key) noexcept {
    return valid_utf8(key.substr(0, 60)) ? key.substr(0, 60) : "array";
  }

  void tensor() {
    Tensor tensor;
    tensor.name = text("tensor name");
    const std::string shown = printable(tensor.name, 80);
    if (tensor.name.empty() || tensor.name.size() > kMaxTensorName || tensor.name.find('\0') != tensor.name.npos) {
      fail(ErrorKind::Parse, "'{}' is no name of a tensor", shown);
    }
    if (!names_.insert(tensor.name).second) fail(ErrorKind::Parse, "tensor '{}' stands twice", shown);
    const uint32_t rank = take<uint32_t>("number of dimensions");
    if (rank == 0 || rank > kMaxRank)
      fail(ErrorKind::Parse, "tensor '{}' has {} dimensions; 1 to 4 expected", shown, rank);
    tensor.elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t size = take<uint64_t>("dimension");
      if (size == 0) fail(ErrorKind::Parse, "tensor '{}' has a dimension of 0", shown);
      tensor.elements = checked_multiply(tensor.elements, size, "elements of a tensor");
      tensor.shape.insert(tensor.shape.begin(), size);
    }
    const uint32_t type = take<uint32_t>("tensor type");
    tensor.type = find_type(type);
    if (tensor.type == nullptr) {
      fail(ErrorKind::Unsupported, "tensor '{}' has type {} ({}), which cannot be read", shown, type,
           name_of_type(type));
    }
    if (tensor.shape.back() % tensor.type->block != 0) {
      fail(ErrorKind::Parse, "tensor '{}': rows of {} are no whole blocks of {} ({})", shown, tensor.shape.back(),
           tensor.type->block, tensor.type->name);
    }
    tensor.nbytes = checked_multiply(tensor.elements / tensor.type->block, tensor.type->bytes, "bytes of a tensor");
    tensor.offset = take<uint64_t>("tensor offset");
    file_.tensors_.push_back(std::move(tensor));
  }

  uint64_t alignment() const {
    const Value* value = file_.find("general.alignment");
    if (value == nullptr) return 32;
    if (value->array || value->type != ValueType::U32) file_.wrong("general.alignment", "a u32");
    const uint32_t alignment = value->bytes.read<uint32_t>(0);
    if (alignment < 8 || !std::has_single_bit(alignment))
      file_.wrong("general.alignment", "a power of two of at least 8");
    return alignment;
  }

  // Offsets count from the aligned end of the records.
  void place_tensors() {
    if (file_.tensors_.empty()) return;
    const uint64_t step = alignment(), start = align_up(at_, step);
    std::vector<const Tensor*> in_order;
    for (Tensor& one : file_.tensors_) {
      const std::string shown = printable(one.name, 80);
      if (one.offset % step != 0)
        fail(ErrorKind::Parse, "tensor '{}' begins at {}, no multiple of the alignment {}", shown, one.offset, step);
      one.offset = checked_add(start, one.offset, "tensor offset");
      if (!bytes_.holds(one.offset, one.nbytes)) {
        fail(ErrorKind::Bounds, "tensor '{}' takes {} bytes at {}, the file has {}: it is cut short or broken", shown,
             one.nbytes, one.offset, bytes_.size());
      }
      in_order.push_back(&one);
    }
    std::sort(in_order.begin(), in_order.end(), [](const Tensor* a, const Tensor* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < in_order.size(); ++i) {
      if (in_order[i - 1]->offset + in_order[i - 1]->nbytes > in_order[i]->offset) {
        fail(ErrorKind::Parse, "tensors '{}' and '{}' overlap", printable(in_order[i - 1]->name, 80),
             printable(in_order[i]->name, 80));
      }
    }
  }

  File& file_;
  Bytes bytes_;
  uint64_t at_ = 0, tensors_ = 0, keys_ = 0;
  std::unordered_set<std::string_view> names_;
};

File::File(std::shared_ptr<const MappedFile> mapping) : mapping_(std::move(mapping)) {
  with_context(path(), [&] { Parser(*this, mapping_->bytes()).run(); });
}

const Value* File::find(std::string_view key) const noexcept {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : &at->second;
}

void File::wrong(std::string_view key, std::string_view expected) const {
  const Value& value = *find(key);
  fail(ErrorKind::Parse, "{}: the value of '{}' ({}{}) is not {}", path(), printable(key, 80),
       value.array ? "array of " : "", kTypeNames[static_cast<size_t>(value.type)], expected);
}

std::optional<std::string_view> File::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->array || value->type != ValueType::String) wrong(key, "a text");
  return value->strings[0];
}

std::optional<bool> File::flag(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->array || value->type != ValueType::Bool) wrong(key, "true or false");
  return value->bytes[0] != 0;
}

std::optional<uint64_t> File::count(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->array ? std::nullopt : integer(*value, 0);
  if (!number) wrong(key, "a whole number of at least 0");
  return number;
}

std::optional<double> File::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->array ? std::nullopt : real(*value, 0);
  if (!number) wrong(key, "a finite number");
  return number;
}

std::vector<uint64_t> File::counts(std::string_view key) const {
  const Value* value = find(key);
  std::vector<uint64_t> out;
  for (uint64_t i = 0; value != nullptr && i < value->count; ++i) {
    const auto number = integer(*value, i);
    if (!number) wrong(key, "whole numbers of at least 0");
    out.push_back(*number);
  }
  return out;
}

std::vector<double> File::numbers(std::string_view key) const {
  const Value* value = find(key);
  std::vector<double> out;
  for (uint64_t i = 0; value != nullptr && i < value->count; ++i) {
    const auto number = real(*value, i);
    if (!number) wrong(key, "finite numbers");
    out.push_back(*number);
  }
  return out;
}

const std::vector<std::string_view>& File::texts(std::string_view key) const {
  static const std::vector<std::string_view> none;
  const Value* value = find(key);
  if (value == nullptr) return none;
  if (!value->array || value->type != ValueType::String) wrong(key, "a list of texts");
  return value->strings;
}

}  // namespace cortiq::convert::gguf
