#include "convert/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/half.h"

namespace cortiq::convert {
namespace {

struct DtypeBits {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array kDtypes{
    DtypeBits{"F32", 32},    DtypeBits{"BF16", 16},   DtypeBits{"F16", 16},    DtypeBits{"F64", 64},
    DtypeBits{"I64", 64},    DtypeBits{"I32", 32},    DtypeBits{"I16", 16},    DtypeBits{"I8", 8},
    DtypeBits{"U64", 64},    DtypeBits{"U32", 32},    DtypeBits{"U16", 16},    DtypeBits{"U8", 8},
    DtypeBits{"BOOL", 8},    DtypeBits{"F8_E5M2", 8}, DtypeBits{"F8_E4M3", 8}, DtypeBits{"F8_E8M0", 8},
    DtypeBits{"F6_E2M3", 6}, DtypeBits{"F6_E3M2", 6}, DtypeBits{"F4", 4},      DtypeBits{"C64", 64},
};

// The limit of the reference reader of this format, far above any model's header.
constexpr uint64_t kMaxHeader = uint64_t{1} << 30;
constexpr size_t kMaxDepth = 16;  // a header has three levels

using Element = simdjson::dom::element;

// Reads one file's header. Everything it says is checked here; what leaves is true.
class HeaderParser {
 public:
  HeaderParser(const MappedFile& mapping, uint32_t file)
      : path_(mapping.path()), bytes_(mapping.bytes()), file_(file) {}

  std::vector<SourceTensor> parse() {
    if (bytes_.size() < 8) {
      fail(ErrorKind::Bounds, "{}: {} bytes are no safetensors file: 8 bytes of header length expected", path_,
           bytes_.size());
    }
    const auto length = bytes_.read<uint64_t>(0);
    if (length < 2 || length > kMaxHeader || length > bytes_.size() - 8) {
      fail(ErrorKind::Bounds, "{}: the header claims {} bytes, the file has {}", path_, length, bytes_.size());
    }
    const Bytes header = bytes_.slice(8, length, "header");
    if (header[0] != '{') fail(ErrorKind::Parse, "{}: the header does not begin with '{{'", path_);
    data_begin_ = 8 + length;
    data_size_ = bytes_.size() - data_begin_;

    simdjson::dom::parser parser(length);
    if (parser.allocate(length, kMaxDepth) != simdjson::SUCCESS) {
      fail(ErrorKind::Io, "{}: no memory for a header of {} bytes", path_, length);
    }
    Element root;
    if (const auto error = parser.parse(header.data(), length, true).get(root)) {
      fail(ErrorKind::Parse, "{}: the header is not valid JSON: {}", path_, simdjson::error_message(error));
    }
    simdjson::dom::object object;
    if (root.get(object)) fail(ErrorKind::Parse, "{}: the header is not an object", path_);
    bool metadata_seen = false;
    for (const auto& [key, value] : object) {
      if (key == "__metadata__") {
        if (metadata_seen) fail(ErrorKind::Parse, "{}: '__metadata__' stands twice in the header", path_);
        metadata_seen = true;
        check_metadata(value);
      } else {
        tensors_.push_back(tensor(key, value));
      }
    }
    check_names();
    check_places();
    return std::move(tensors_);
  }

 private:
  void check_metadata(const Element& value) const {
    simdjson::dom::object object;
    if (value.get(object)) fail(ErrorKind::Parse, "{}: '__metadata__' is not an object", path_);
    for (const auto& [key, text] : object) {
      if (!text.is_string()) {
        fail(ErrorKind::Parse, "{}: '__metadata__' value of '{}' is not a string", path_, printable(key, 80));
      }
    }
  }

  SourceTensor tensor(std::string_view name, const Element& value) const {
    SourceTensor out;
    out.name = name;
    out.file = file_;
    const std::string shown = printable(name);
    simdjson::dom::object object;
    if (value.get(object)) fail(ErrorKind::Parse, "{}: tensor '{}' is not described by an object", path_, shown);
    bool dtype = false, shape = false, offsets = false;
    uint64_t end = 0;
    for (const auto& [key, entry] : object) {
      bool& seen = key == "dtype" ? dtype : key == "shape" ? shape : key == "data_offsets" ? offsets : ignored_;
      if (&seen == &ignored_) continue;
      if (seen) fail(ErrorKind::Parse, "{}: tensor '{}': the key '{}' stands twice", path_, shown, key);
      seen = true;
      if (key == "dtype") {
        std::string_view text;
        if (entry.get(text)) fail(ErrorKind::Parse, "{}: tensor '{}': dtype is not a string", path_, shown);
        if (safetensors_bits(text) == 0) {
          fail(ErrorKind::Parse, "{}: tensor '{}': unknown dtype '{}'", path_, shown, printable(text, 40));
        }
        out.dtype = text;
      } else {
        const std::vector<uint64_t> numbers = unsigned_numbers(entry, shown, key);
        if (key == "shape") {
          out.shape = numbers;
        } else {
          if (numbers.size() != 2) {
            fail(ErrorKind::Parse, "{}: tensor '{}': data_offsets has {} entries instead of 2", path_, shown,
                 numbers.size());
          }
          out.offset = numbers[0];
          end = numbers[1];
        }
      }
    }
    if (!dtype || !shape || !offsets) {
      fail(ErrorKind::Parse, "{}: tensor '{}' lacks {}", path_, shown,
           !dtype   ? "dtype"
           : !shape ? "shape"
                    : "data_offsets");
    }
    if (end < out.offset || end > data_size_) {
      fail(ErrorKind::Bounds, "{}: tensor '{}': data_offsets [{}, {}] do not lie in the {} bytes of data", path_, shown,
           out.offset, end, data_size_);
    }
    out.nbytes = end - out.offset;
    check_size(out, shown);
    return out;
  }

  std::vector<uint64_t> unsigned_numbers(const Element& value, const std::string& shown, std::string_view key) const {
    simdjson::dom::array array;
    if (value.get(array)) fail(ErrorKind::Parse, "{}: tensor '{}': {} is not an array", path_, shown, key);
    std::vector<uint64_t> out;
    for (const Element entry : array) {
      uint64_t number = 0;
      // get(uint64) would take an integral double from some versions: the literal itself must be an integer.
      if (entry.type() == simdjson::dom::element_type::DOUBLE || entry.get(number)) {
        fail(ErrorKind::Parse, "{}: tensor '{}': {} holds something else than integers from 0 to 2^64-1", path_, shown,
             key);
      }
      out.push_back(number);
    }
    return out;
  }

  void check_size(const SourceTensor& tensor, const std::string& shown) const {
    with_context(fmt::format("{}: tensor '{}'", path_, shown), [&] {
      uint64_t elements = 1;
      bool empty = false;
      for (const uint64_t size : tensor.shape) {
        if (size == 0) empty = true;
        elements = checked_multiply(elements, std::max<uint64_t>(size, 1), "shape");
      }
      if (empty) elements = 0;
      const uint64_t bits = checked_multiply(elements, safetensors_bits(tensor.dtype), "bits");
      if (bits % 8 != 0 || bits / 8 != tensor.nbytes) {
        fail(ErrorKind::Bounds, "{} {} needs {} bits, data_offsets give {} bytes", tensor.dtype, tensor.shape_text(),
             bits, tensor.nbytes);
      }
    });
  }

  void check_names() {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(tensors_.begin(), tensors_.end(),
                           [](const SourceTensor& a, const SourceTensor& b) { return a.name == b.name; });
    if (twice != tensors_.end()) {
      fail(ErrorKind::Parse, "{}: duplicate name: tensor '{}' stands twice in the header", path_,
           printable(twice->name));
    }
  }

  // In order of offset, one after the other, from the first byte of data to the last.
  void check_places() {
    std::vector<const SourceTensor*> order;
    order.reserve(tensors_.size());
    for (const SourceTensor& one : tensors_) order.push_back(&one);
    std::sort(order.begin(), order.end(), [](const SourceTensor* a, const SourceTensor* b) {
      return std::pair(a->offset, a->nbytes) < std::pair(b->offset, b->nbytes);
    });
    uint64_t end = 0;
    const SourceTensor* last = nullptr;
    for (const SourceTensor* one : order) {
      if (one->offset != end) {
        fail(ErrorKind::Bounds, "{}: tensor '{}' begins at {}, {} the {} before it", path_, printable(one->name),
             one->offset, one->offset < end ? "inside" : "with a hole after",
             last ? fmt::format("tensor '{}' that ends at {}", printable(last->name), end) : "beginning of the data");
      }
      end = one->offset + one->nbytes;
      last = one;
    }
    if (end != data_size_) {
      fail(ErrorKind::Bounds, "{}: {} bytes after the last tensor{}", path_, data_size_ - end,
           last ? fmt::format(" '{}'", printable(last->name)) : "");
    }
    for (SourceTensor& one : tensors_) one.offset += data_begin_;
  }

  const std::string& path_;
  Bytes bytes_;
  uint32_t file_;
  uint64_t data_begin_ = 0, data_size_ = 0;
  std::vector<SourceTensor> tensors_;
  mutable bool ignored_ = false;
};

template <class From, class Convert>
void widen(const uint8_t* at, uint64_t count, float* out, Convert convert) {
  for (uint64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, at + i * sizeof(From), sizeof(From));
    out[i] = convert(value);
  }
}

}  // namespace

uint32_t safetensors_bits(std::string_view dtype) noexcept {
  for (const DtypeBits& one : kDtypes) {
    if (one.name == dtype) return one.bits;
  }
  return 0;
}

std::vector<SourceTensor> parse_safetensors(const MappedFile& mapping, uint32_t file) {
  return HeaderParser(mapping, file).parse();
}

std::shared_ptr<const Source> open_safetensors_file(const std::string& path, FileSystem& files) {
  std::shared_ptr<const MappedFile> mapping = files.map(path);
  std::vector<SourceTensor> tensors = parse_safetensors(*mapping, 0);
  return std::make_shared<SafetensorsSource>(std::vector{std::move(mapping)}, std::move(tensors),
                                             std::vector<std::string>{});
}

SafetensorsSource::SafetensorsSource(std::vector<std::shared_ptr<const MappedFile>> files,
                                     std::vector<SourceTensor> tensors, std::vector<std::string> warnings)
    : files_(std::move(files)), tensors_(std::move(tensors)), warnings_(std::move(warnings)) {}

void SafetensorsSource::read_rows(const SourceTensor& tensor, uint64_t first, uint64_t count, float* out) const {
  const uint64_t cols = tensor.cols();
  const uint64_t width = safetensors_bits(tensor.dtype) / 8;
  const MappedFile& file = *files_[tensor.file];
  const uint64_t begin = tensor.offset + first * cols * width, length = count * cols * width;
  const uint8_t* at = file.bytes().slice(begin, length, "rows").data();
  const uint64_t n = count * cols;
  if (tensor.dtype == "F32") {
    std::memcpy(out, at, length);
  } else if (tensor.dtype == "BF16") {
    widen<uint16_t>(at, n, out, bf16_to_f32);
  } else if (tensor.dtype == "F16") {
    widen<uint16_t>(at, n, out, f16_to_f32);
  } else if (tensor.dtype == "F64") {
    widen<double>(at, n, out, [](double value) { return static_cast<float>(value); });
  } else {
    fail(ErrorKind::Unsupported,
         "{}: tensor '{}' has dtype {}: weights must be F32, F16, BF16 or F64; a quantised checkpoint must be "
         "dequantised first",
         file.path(), printable(tensor.name), tensor.dtype);
  }
  // The mapping's pages count as this process' memory until they are let go; the system keeps them cached.
  file.advise(begin, length, MappedFile::Advice::DontNeed);
}

bool SafetensorsSource::readable(const SourceTensor& tensor) const {
  return tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16" || tensor.dtype == "F64";
}

void SafetensorsSource::will_need(const SourceTensor& tensor) const noexcept {
  files_[tensor.file]->advise(tensor.offset, tensor.nbytes, MappedFile::Advice::WillNeed);
}

uint64_t SafetensorsSource::bytes() const noexcept {
  uint64_t sum = 0;
  for (const auto& file : files_) sum += file->bytes().size();
  return sum;
}

}  // namespace cortiq::convert
